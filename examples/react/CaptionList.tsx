// The captions of a room in one language, with a line to speak.

import { captionIn, type Utterance } from "caption-gateway-client";
import { memo, type FormEvent } from "react";

import { useCaptions } from "./useCaptions.js";

const Line = memo(function Line({ utterance, lang }: { utterance: Utterance; lang: string }) {
  const caption = captionIn(utterance, lang); // the original, if the translation failed
  if (caption.status === "cancelled" && !caption.stable) return null;
  return (
    <li lang={caption.lang} dir="auto" title={caption.status === "failed" ? "not translated" : undefined}>
      {utterance.speaker !== null && <strong>{utterance.speaker}: </strong>}
      {caption.stable}
      <span style={{ opacity: 0.5 }}>{caption.draft}</span>
    </li>
  );
});

export function CaptionList(props: { gateway: string; room: string; lang: string; speaker: string }) {
  const { gateway, room, lang, speaker } = props;
  const { utterances, state, say } = useCaptions(gateway, room, lang, { speaker, from: "auto" });

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget).get("text") ?? "").trim();
    if (text) say(text);
    event.currentTarget.reset();
  }

  return (
    <section>
      <p role="status">{state}</p>
      <ol aria-live="polite">
        {utterances.map((utterance) => (
          <Line key={utterance.key} utterance={utterance} lang={lang} />
        ))}
      </ol>
      <form onSubmit={submit}>
        <input name="text" aria-label="Say" autoComplete="off" />
      </form>
    </section>
  );
}
