// What somebody reads: the captions of the meeting, in the languages of the columns.
//
// Owns: the state of the captions, and when it is drawn. It puts the rows, the columns, the earlier lines and the
// actions on a caption together.
// Must not know: sockets, who speaks on this page.

import { EMPTY_STATE, finishedCaption, inRoomOrder, reduce } from "../../clients/js/captions.js";
import { reasonAgainst } from "../page/pairs.js";
import { AutoScroll } from "./autoscroll.js";
import { CaptionList } from "./caption-list.js";
import { ColumnHeads } from "./column-heads.js";

const COVERED = matchMedia("(max-width: 60rem)"); // as in panels.css: the panel lies over the captions
const OVERLAY_LINES = 3; // as many as the preview of the overlay shows

/** The captions of this page. */
export class Reading {
  state = EMPTY_STATE;
  columns;
  #list;
  #load; // loads the two parts that the first caption needs
  #parts = null; // promise of them
  #actions = null;
  #earlier = null;
  #autoscroll;
  #onRender;
  #frame = 0;
  #liveAfter = Infinity; // number of the room's last event when this page joined; later ones happen now

  /**
   * @param {object} settings result of `readSettings`
   * @param {TranscriptFiles} options.files
   * @param {(message: object) => boolean} options.send sends a message
   * @param {() => object[]} options.pairs returns what the gateway translates into what
   * @param {() => string} options.spoken returns the language that is spoken on this page; "" if nobody speaks
   * @param {() => string} options.role returns the role of this page
   * @param {(languages: string[]) => void} options.onLanguages called when somebody chooses other languages
   * @param {(lang: string | null) => void} options.onListen called when somebody wants to hear a language, or none
   * @param {() => void} options.onRender called when captions were drawn
   */
  constructor(settings, { files, send, pairs, spoken, role, onLanguages, onListen, onRender }) {
    this.#onRender = onRender;
    this.#autoscroll = new AutoScroll(document.querySelector("#reader"), document.querySelector("#newest"), {
      onScrolledBack: (back) => this.dispatch({ type: "scrolled", back }),
      onTop: () => this.#earlier?.showMore(),
    });
    this.#list = new CaptionList(this.#autoscroll, (name, hue) => this.columns.nameTurn(name, hue));
    this.columns = new ColumnHeads(document.querySelectorAll("#column-heads, #start-reads"), settings.to, {
      onChange: (languages) => {
        onLanguages(languages);
        this.draw();
      },
      onListen,
      // People who only read hear speakers of any language.
      reasonAgainst: (tag) => reasonAgainst(pairs(), spoken() ? [spoken()] : pairs().map((pair) => pair.tag), tag),
    });
    this.#load = async () => {
      const [{ CaptionActions }, { EarlierLines }] = await Promise.all([import("./caption-actions.js"), import("./earlier-lines.js")]);
      this.#actions = new CaptionActions(this.#list, this.#autoscroll, { role, send });
      this.#earlier = new EarlierLines({
        files,
        languages: () => this.columns.languages,
        state: () => this.state,
        show: (utterances) => this.dispatch({ type: "earlier", utterances }),
      });
      this.draw();
    };
  }

  /** True if there is nothing to read. */
  get isEmpty() {
    return this.state.utterances.size === 0;
  }

  /** Show an event of the meeting, and have screen readers announce what is finished. */
  onEvent(event) {
    const lang = this.columns.languages[0]; // one language only: several at once would be noise
    switch (event.type) {
      case "welcome":
        this.#liveAfter = event.seq;
        break;
      case "final":
        if (event.by === "mt") this.columns.showMaking(event.lang, finishedCaption(event));
        if (event.lang === lang) this.#list.announce(event, this.#utterance(event.id)?.speaker);
        break;
      case "edited":
        if (event.lang === lang) this.#list.announce(event, this.#utterance(event.id)?.speaker, true);
        break;
      case "retracted":
        this.#list.silence(event.id);
    }
    this.dispatch(event.type === "source" && event.seq > this.#liveAfter ? { ...event, at: Date.now() } : event);
  }

  /** Apply an event to the captions; see clients/js/captions.js. */
  dispatch(event) {
    const before = this.state;
    this.state = reduce(before, event);
    if (this.state !== before) this.draw();
  }

  /** Draw in the next frame, once for all events until then. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#list.render(this.state, this.columns.languages)) this.draw();
      this.#earlier?.offer();
      if (!this.isEmpty) this.#parts ??= this.#load().catch(() => { this.#parts = null; }); // tried again with the next one
      this.#onRender();
    });
  }

  /** Lay the captions out again, because their size or what is shown of them has changed. */
  onDisplay() {
    this.#list.releaseHeights();
    this.draw(); // clock times may be wanted
  }

  /** Show the newest caption at once. */
  jumpToNewest() {
    this.#autoscroll.jumpToNewest();
  }

  /** Show the captions of a meeting that has ended, as this page has kept them. */
  restore(utterances, languages) {
    this.columns.offer(languages, languages);
    this.state = { ...EMPTY_STATE, utterances: new Map(utterances.map((utterance) => [utterance.key, utterance])) };
    this.draw();
  }

  /** Take back what is not done yet, because the meeting is over. */
  end() {
    this.#parts?.then(() => this.#actions?.end());
  }

  /** Return what was said in an utterance; "" if it is not known. */
  originalOf(id) {
    return this.#utterance(id)?.text ?? "";
  }

  /** Return the newest captions in a language, as many as the overlay shows. */
  newestLines(lang) {
    const texts = inRoomOrder(this.state).slice(-OVERLAY_LINES).map(({ captions }) => captions[lang]).filter(Boolean);
    return texts.map(({ stable, draft }) => stable + draft).filter(Boolean);
  }

  /** Show a line of the transcript among the captions. `close` closes the panel where it lies over them. */
  async goTo({ key, ord }, close) {
    this.dispatch({ type: "scrolled", back: true }); // lines are not dropped before the reader has left the newest one
    if (!this.state.utterances.has(key)) await this.#earlier.showFrom(ord);
    if (COVERED.matches) close();
    requestAnimationFrame(() => this.#list.goTo(key));
  }

  #utterance(id) {
    return this.state.utterances.get(`${this.state.epochIndex}/${id}`);
  }
}
