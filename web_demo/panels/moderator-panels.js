// The panels that only moderators have: the topic and the glossary, and the live figures.
//
// Owns: which events of the meeting they are told.
// Must not know: sockets, captions.

import { ModerationPanel } from "./moderation.js";
import { StatisticsPanel } from "./statistics.js";

/** The panels Moderate and Live stats. */
export class ModeratorPanels {
  statistics;
  #moderation;

  /**
   * @param {object} settings result of `readSettings`
   * @param {AccessKey} options.key
   * @param {(message: object) => boolean} options.send sends a message
   * @param {() => string[]} options.languages returns the tags that are read in this meeting
   * @param {object | null} options.welcome the last `welcome`
   */
  constructor(settings, { key, send, languages, welcome }) {
    this.#moderation = new ModerationPanel(settings, { send, languages });
    this.statistics = new StatisticsPanel(settings, key);
    if (welcome) this.#moderation.onWelcome(welcome);
  }

  /** Handle an event of the meeting. `original` is what was said in its utterance. */
  onEvent(event, original) {
    this.statistics.onEvent(event);
    if (event.type === "welcome") this.#moderation.onWelcome(event);
    else if (event.type === "settings") this.#moderation.onSettings(event);
    else if (event.type === "error") this.#moderation.onError(event);
    else if (event.type === "final" && event.flags?.includes("glossary")) {
      this.#moderation.onMissed(original, event.text, event.lang);
    }
  }
}
