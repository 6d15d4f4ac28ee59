// A hook that joins a room while its component is shown.

import { useEffect, useRef, useState } from "react";

import { connect, type CaptionClient, type ClientOptions, type ConnectionState, type Utterance } from "caption-gateway-client";

export interface Captions {
  readonly utterances: readonly Utterance[];
  readonly state: ConnectionState;
  readonly say: (text: string) => void;
}

/** Join a room of the gateway. A change of `gateway`, `room` or `to` joins anew. */
export function useCaptions(gateway: string, room: string, to: string, options: ClientOptions = {}): Captions {
  const client = useRef<CaptionClient | null>(null);
  const [utterances, setUtterances] = useState<readonly Utterance[]>([]);
  const [state, setState] = useState<ConnectionState>("connecting");

  useEffect(() => {
    const joined = connect(gateway, {
      ...options,
      room,
      to,
      // Utterances that have not changed stay the same objects, so memoised lines are not drawn again.
      onChange: (changed) => setUtterances(changed.utterances),
      onState: setState,
    });
    client.current = joined;
    return () => {
      client.current = null;
      joined.close();
      setUtterances([]);
    };
    // `options` is often a new object in every render, and must not join anew.
  }, [gateway, room, to]);

  return { utterances, state, say: (text) => void client.current?.say(text) };
}
