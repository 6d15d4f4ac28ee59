// The microphone's samples, in the thread of the audio: PCM of 16 bit in pieces of a tenth of a second.
//
// Owns: the conversion, the length of a piece and its loudness. Must not know: sockets, the document.

const PIECES_PER_SECOND = 10;

class Capture extends AudioWorkletProcessor {
  #piece = new Int16Array(Math.round(sampleRate / PIECES_PER_SECOND));
  #filled = 0;
  #loudest = 0;

  process([[channel]]) {
    for (const sample of channel ?? []) {
      this.#loudest = Math.max(this.#loudest, Math.abs(sample));
      this.#piece[this.#filled++] = Math.max(-1, Math.min(1, sample)) * 0x7fff;
      if (this.#filled < this.#piece.length) continue;
      const { buffer } = this.#piece.slice();
      this.port.postMessage({ pcm: buffer, level: this.#loudest }, [buffer]);
      this.#filled = this.#loudest = 0;
    }
    return true; // until the context is closed
  }
}

registerProcessor("capture", Capture);
