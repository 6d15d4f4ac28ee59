// A program in TypeScript, checked in strict mode against the types of the packed client.

import WebSocket from "ws";

import { EMPTY_STATE, EventStream, WebSocketConnection, captionIn, connect, inRoomOrder, reduce, wakeOnReturn } from "caption-gateway-client";
import type { CaptionState, ConnectionState, ServerMessage, Utterance, protocol } from "caption-gateway-client";
import "caption-gateway-client/live-captions";

const client = connect(new URL("wss://captions.example"), {
  room: "board",
  to: ["de", "ja"],
  WebSocket,
  ticket: async () => "ticket",
  onChange: ({ utterances }) => utterances.map(line),
  onEvent: follow,
  onState(state: ConnectionState, detail) {
    const waiting: number | string | undefined = detail;
    console.log(state, waiting);
  },
});
const id: string | null = client.say("Good", { final: false, lang: "en" });
if (id !== null) client.say("Good morning", { id });
client.want("fr");
client.send({ type: "retract", id: "u1" });
// @ts-expect-error: the protocol has no such message
client.send({ type: "sing" });
// @ts-expect-error: an utterance cannot be changed
client.utterances.forEach((one) => (one.text = ""));

let state: CaptionState = EMPTY_STATE;
function follow(event: ServerMessage): void {
  state = reduce(state, event);
  if (event.type === "final") {
    const ms: number | undefined = event.ms?.total;
    const by: protocol.Final["by"] = event.by;
    console.log(event.text, by, ms, inRoomOrder(state).length);
  }
}

function line(utterance: Utterance): string {
  const { lang, stable, draft, status, engine } = captionIn(utterance, "de");
  const maybe: string | undefined = utterance.captions["ja"]?.stable;
  const begin: number = utterance.t0 ?? 0;
  return `${begin} ${lang} ${stable} ${draft} ${status} ${maybe} ${engine ?? ""}`;
}

const connection = new WebSocketConnection(() => "wss://captions.example/v1/ws", {
  onEvent: follow, onState: () => {}, key: "key",
});
connection.sendAudio(new Int16Array(160));
const stop: () => void = wakeOnReturn(connection);
stop();
new EventStream(() => "https://captions.example/v1/rooms/board/events", { onEvent: follow, onState: () => {} }).wake();

const element = document.createElement("live-captions");
element.ticket = async () => "ticket";
element.addEventListener("statechange", ({ detail }) => console.log(detail.state));
