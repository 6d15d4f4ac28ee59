// Generated from docs/schema/gateway.v1.schema.json by `make docs-pages`.

/** A new utterance, or a newer revision of one. `text` is the whole text so far. */
export interface Say {
  type: "say";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  text: string;
  /** Chosen by the client, unique in its room. */
  id?: string | null;
  /** Revision number, rising. */
  rev?: number | null;
  final?: boolean;
  /** BCP 47 language tag. */
  lang?: string | null;
  /** Display name. */
  speaker?: string | null;
  /** Seconds of the speaker's clock. */
  t0?: number | null;
  /** Seconds of the speaker's clock. */
  t1?: number | null;
}

/**
 * The begin of audio in `codec`, or its end with the codec `none`. Answered by `audio`.
 *
 * `rate` is in samples per second, and of PCM only. `t0` is the time of the first sample.
 */
export interface Audio {
  type: "audio";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  codec: string;
  rate?: number;
  /** BCP 47 language tags with commas between them, or `auto`. */
  from?: string | null;
  /** Seconds of the speaker's clock. */
  t0?: number;
}

/** A piece of the audio, like a binary frame of the sub-protocol JSON. It has no answer. */
export interface AudioChunk {
  type: "chunk";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  data: string;
}

/** A request to stop work on an utterance now. Always answered by `cancelled`. */
export interface Cancel {
  type: "cancel";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  /** An utterance, or a part of a long one: `u1.2`. */
  id: string;
  langs?: Array<string> | null;
}

/**
 * The languages and the view that this socket reads from now on.
 *
 * `backfill` is the number of ended utterances that are shown in languages that this socket did
 * not read before. Without it the number is the server's setting.
 */
export interface Want {
  type: "want";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  langs: Array<string>;
  view?: "final" | "live" | "stable" | null;
  backfill?: number | null;
}

/** A change of settings of the room or of this speaker. Answered by `settings`. */
export interface Set {
  type: "set";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  context?: string | null;
  /** Translations by term: one for all languages, or one for each BCP 47 tag. */
  glossary?: Record<string, string | Record<string, string>> | null;
  /** BCP 47 language tags with commas between them, or `auto`. */
  from?: string | null;
  /** Display name. */
  speaker?: string | null;
  style?: string | null;
}

/**
 * A correction of a caption, or of the original if `lang` is the language of the utterance;
 * the original is then translated again. Answered by `edited`, or by `final` if the caption
 * was still being made.
 */
export interface Edit {
  type: "edit";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  /** An utterance, or a part of a long one: `u1.2`. */
  id: string;
  /** BCP 47 language tag. */
  lang: string;
  text: string;
}

/** A request to withdraw an utterance in all languages. Answered by `retracted`. */
export interface Retract {
  type: "retract";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  /** An utterance, or a part of a long one: `u1.2`. */
  id: string;
}

/** A request for the full snapshot of one utterance. Answered by `snapshot`. */
export interface Get {
  type: "get";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  /** An utterance, or a part of a long one: `u1.2`. */
  id: string;
}

/** A request to send the room's durable events after `seq` again. Answered by `synced`. */
export interface Sync {
  type: "sync";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  epoch: string;
  seq: number;
}

/**
 * A new key or token, sent before the one of this socket expires.
 *
 * Answered by `authenticated`, or by `error`. After an error the old one stays valid.
 */
export interface Auth {
  type: "auth";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
  token: string;
}

/** A request for the counters of this socket. Answered by `stats`. */
export interface AskStats {
  type: "stats";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
}

/** A request for the list of message types, one line each. Answered by `help`. */
export interface AskHelp {
  type: "help";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
}

/** A request to finish the utterances in flight, send `stats` and close with 1000. */
export interface Bye {
  type: "bye";
  /** Echoed in the answer to this frame. */
  ref?: string | null;
}

/**
 * The first frame of every socket. `resume` is a token with which a new socket can take the
 * place of this one. `resumed` is present if the client sent `epoch` and `seq`.
 * `impossible` lists by source the targets into which it cannot be translated; it is absent if
 * there are none, and if there are too many languages to say. `glossary` is false if the model
 * is not told the terms of the room: then captions are only checked for them. `settings` is for
 * those who may change them, if any was set. `audio` is absent if this gateway does not
 * recognise speech.
 */
export interface Welcome {
  type: "welcome";
  v: number;
  session: string;
  room: string;
  epoch: string;
  seq: number;
  resume: string | null;
  engine: string;
  languages: Array<string>;
  impossible?: Record<string, Array<string>> | null;
  glossary?: boolean;
  limits: LimitsInfo;
  settings?: RoomSettings | null;
  audio?: AudioInfo | null;
  resumed?: Resumed | null;
  hint?: string | null;
}

/**
 * Limits of this socket: bytes of a frame, characters of a text, utterances in flight,
 * languages it reads, frames a second.
 */
export interface LimitsInfo {
  frame: number;
  text: number;
  inflight: number;
  targets: number;
  rate: number;
}

/** The settings of a room as they are, and the number of their version. */
export interface RoomSettings {
  version: number;
  context?: string | null;
  glossary?: Record<string, string | Record<string, string>> | null;
  style?: string | null;
}

/**
 * The audio that a socket may send.
 *
 * `rates` are the lowest and the highest rate of PCM. `languages` can be recognised and
 * translated; it is empty if the recogniser does not name its languages. `rate` and `burst`
 * are seconds of audio, sustained in a second and at once. `window` is the number of seconds
 * that may wait for recognition.
 */
export interface AudioInfo {
  codecs: Array<string>;
  rates: Array<number>;
  languages?: Array<string>;
  recogniser: string;
  rate: number;
  burst: number;
  window: number;
}

/**
 * The outcome of resuming: `ok` if this socket continues where an earlier one ended.
 *
 * `replayed` durable events follow. If the log no longer reaches back far enough, `from` is
 * the number of its first event, and `transcript` is a path where more may be found.
 */
export interface Resumed {
  ok: boolean;
  replayed: number;
  from?: number | null;
  transcript?: string | null;
}

/** The acceptance of an utterance. `ord` is its position in the room. */
export interface Ack {
  type: "ack";
  id: string;
  rev: number;
  ord: number;
  ref?: string | null;
}

/**
 * The state of this socket's audio: the answer to `audio`, and a report of progress.
 *
 * The first `seconds` of the audio are settled: recognised for good, or without speech, or
 * `lost`. These are seconds of speech that were not recognised, because the recogniser was late
 * by more than the audio that is kept, or failed twice.
 */
export interface AudioState {
  type: "audio";
  codec: string;
  rate: number;
  from: string;
  seconds: number;
  lost?: number;
  ref?: string | null;
}

/**
 * The newest text of an utterance that was recognised in this socket's audio.
 *
 * `text` is the whole text so far. `t0` and `t1` are times of its first and last word.
 */
export interface HeardSpeech {
  type: "heard";
  id: string;
  rev: number;
  lang: string;
  text: string;
  t0: number;
  t1: number;
  final?: boolean;
}

/** The finished original. */
export interface Source {
  type: "source";
  seq: number;
  id: string;
  rev: number;
  ord: number;
  lang: string;
  text: string;
  speaker?: string | null;
  t0?: number | null;
  t1?: number | null;
}

/**
 * More text of a caption. A caption is its stable text followed by its draft.
 *
 * `add` is appended to the stable text. `draft`, if present, replaces the unstable tail.
 * `reset` empties the stable text first. `n` is the length of the stable text afterwards, in
 * code points. `speaker` is named until the caption has stable text, and with each `reset`.
 */
export interface Delta {
  type: "delta";
  id: string;
  rev: number;
  lang: string;
  add?: string;
  draft?: string | null;
  reset?: boolean;
  n: number;
  speaker?: string | null;
}

/** The finished caption with its whole text. A client may ignore every `delta`. */
export interface Final {
  type: "final";
  seq: number;
  id: string;
  rev: number;
  ord: number;
  lang: string;
  text: string;
  by: "cache" | "human" | "mt" | "same";
  ms: Timing;
  flags?: Array<string>;
  p?: number | null;
  t0?: number | null;
  t1?: number | null;
  ref?: string | null;
}

/** Milliseconds from the utterance to the start of work, the first text, and the end. */
export interface Timing {
  queue: number;
  first: number;
  total: number;
}

/**
 * The failure of a caption, and `msg`, a sentence about it that quotes nobody. The reader is
 * shown the original, marked as such.
 */
export interface Failed {
  type: "failed";
  seq: number;
  id: string;
  rev: number;
  ord: number;
  lang: string;
  code: string;
  retry: boolean;
  msg?: string | null;
}

/**
 * A barrier: no event of `id` with this `rev` or an older one follows.
 *
 * Without `lang` it covers every language that had not ended. It carries a `seq` only if it
 * ended something. The answer for an utterance that had ended or never existed has none.
 */
export interface Cancelled {
  type: "cancelled";
  seq?: number | null;
  id: string;
  rev: number;
  lang?: string | null;
  was: "done" | "none" | "queued" | "running";
  ref?: string | null;
}

/**
 * The new text of a caption that had ended.
 *
 * `by` is `human` for the correction itself, and `mt` for the new translation of a corrected
 * original.
 */
export interface Edited {
  type: "edited";
  seq: number;
  id: string;
  rev: number;
  ord: number;
  lang: string;
  text: string;
  by: "cache" | "human" | "mt" | "same";
  ref?: string | null;
}

/** The withdrawal of an utterance. Clients remove it from the screen in all languages. */
export interface Retracted {
  type: "retracted";
  seq: number;
  id: string;
  ord: number;
  ref?: string | null;
}

/** The changed settings of the room, and the version of the settings after the change. */
export interface Settings {
  type: "settings";
  seq: number;
  version: number;
  context?: string | null;
  glossary?: Record<string, string | Record<string, string>> | null;
  style?: string | null;
  from?: string | null;
  speaker?: string | null;
  session?: string | null;
  ref?: string | null;
}

/** The people in the room: readers of each language, number of sockets, names of speakers. */
export interface Presence {
  type: "presence";
  readers: Record<string, number>;
  members: number;
  speakers?: Array<string>;
}

/** One utterance in its present state. Answer to `get`. */
export interface Snapshot {
  type: "snapshot";
  id: string;
  rev: number;
  ord: number;
  lang: string;
  text: string;
  final: boolean;
  lines: Array<Line>;
  speaker?: string | null;
  ref?: string | null;
}

/** One language of a snapshot: `state` and stable `text` of the caption. */
export interface Line {
  lang: string;
  state: string;
  text: string;
  draft?: string | null;
  by?: "cache" | "human" | "mt" | "same" | null;
}

/**
 * The answer to `sync`: the fields of `resumed`, and the epoch and number from which the
 * events continue.
 */
export interface Synced {
  type: "synced";
  epoch: string;
  seq: number;
  ok: boolean;
  replayed: number;
  from?: number | null;
  transcript?: string | null;
  ref?: string | null;
}

/**
 * The answer to `auth`. `until` is the expiry time of the new key or token, in seconds of
 * the Unix clock.
 */
export interface Authenticated {
  type: "authenticated";
  name?: string | null;
  until?: number | null;
  ref?: string | null;
}

/** Counters of this socket since it was opened. */
export interface Stats {
  type: "stats";
  said: number;
  finals: number;
  failed: number;
  cancelled: number;
  errors: number;
  frames_in: number;
  frames_out: number;
  bytes_out: number;
  merged: number;
  inflight: number;
  seconds: number;
  ref?: string | null;
}

/** The message types a client can send, with one line for each. */
export interface Help {
  type: "help";
  types: Record<string, string>;
  ref?: string | null;
}

/** A heartbeat for clients that cannot see pings (`hb=` in the query). */
export interface Tick {
  type: "tick";
  seq: number;
}

/**
 * The start, a change or the end of reduced service.
 *
 * `partials` is `off` while the engine is overloaded: captions come once the utterance is
 * final. `engine` is present while that engine replaces the one in `welcome`, or does only a
 * part of its work under the same name. Normal service is back with `partials` `on` and no
 * `engine`.
 */
export interface Degraded {
  type: "degraded";
  partials: "off" | "on";
  engine?: string | null;
}

/**
 * A notice that this socket reads too slowly. `dropped` deltas and drafts were left out.
 *
 * `ms` is the age of the oldest frame that follows, in milliseconds.
 */
export interface Lag {
  type: "lag";
  dropped: number;
  ms: number;
}

/** The notice of a planned close. A client opens the next socket, then leaves this one. */
export interface Goaway {
  type: "goaway";
  in_ms: number;
  why: string;
}

/** The refusal of a request. `fatal` means that a close follows. */
export interface Error {
  type: "error";
  code: string;
  fatal: boolean;
  retry: boolean;
  retry_ms?: number | null;
  id?: string | null;
  ref?: string | null;
  msg: string;
  hint?: string | null;
}

export type ClientMessage = Say | Audio | AudioChunk | Cancel | Want | Set | Edit | Retract | Get | Sync | Auth | AskStats | AskHelp | Bye;

export type ServerMessage = Welcome | Ack | AudioState | HeardSpeech | Source | Delta | Final | Failed | Cancelled | Edited | Retracted | Settings | Presence | Snapshot | Synced | Authenticated | Stats | Help | Tick | Degraded | Lag | Goaway | Error;
