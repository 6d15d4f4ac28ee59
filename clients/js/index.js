// All that the package offers programs. The element is in live-captions.js.

export { EMPTY_STATE, MAX_UTTERANCES, captionIn, inRoomOrder, reduce } from "./captions.js";
export { CaptionClient, connect } from "./client.js";
export { WebSocketConnection } from "./connection.js";
export { EventStream } from "./event-stream.js";
export { wakeOnReturn } from "./page-return.js";
