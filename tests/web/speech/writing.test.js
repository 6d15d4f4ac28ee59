// The writing system of what is typed, against the language that is named.

import assert from "node:assert/strict";
import { test } from "node:test";

import { isOtherScript, otherLanguageOf } from "../../../web_demo/speech/writing.js";

test("text in another writing system than the language's is noticed", () => {
  assert.equal(isOtherScript("会議を始めましょう", "en"), true);
  assert.equal(isOtherScript("Let's start the meeting", "ja"), true);
  assert.equal(isOtherScript("Давайте начнём", "de"), true);
  assert.equal(isOtherScript("صباح الخير", "fr"), true);
});

test("text in the language's own writing systems is not, with a foreign name, an emoji or digits", () => {
  for (const [text, lang] of [
    ["会議を始めましょう、Peterさん", "ja"], ["我们开始吧", "zh"], ["我們開始吧", "zh-Hant"], ["회의를 시작합시다", "ko"],
    ["Guten Morgen, 田中さん", "de"], ["👍🎉", "en"], ["240,000", "ja"], ["OK", "ja"], ["صباح الخير", "ar"], ["", "en"],
  ]) assert.equal(isOtherScript(text, lang), false, `${lang}: ${text}`);
});

test("a language that the browser does not know is not judged", () => {
  for (const lang of ["auto", "x", ""]) assert.equal(isOtherScript("会議を始めましょう", lang), false, lang);
});

const OFFERED = ["ar", "de", "en", "es", "fr", "ja", "zh"];

test("a first line in another language than the named one is noticed", () => {
  for (const [text, lang] of [
    ["Guten Morgen zusammen, wir fangen an", "de"], ["Bonjour à tous, nous commençons", "fr"],
    ["Hola, buenos días a todos", "es"], ["おはようございます", "ja"], ["早上好，我们开始吧", "zh"], ["صباح الخير للجميع", "ar"],
  ]) assert.equal(otherLanguageOf(text, "en", OFFERED), lang, text);
  assert.equal(otherLanguageOf("Good morning everybody, we are ready", "de-AT", OFFERED), "en");
});

test("a line in the named language, a name or a word that several languages have is not", () => {
  for (const [text, lang] of [
    ["Good morning everybody", "en"], ["Guten Morgen zusammen", "de"], ["Peter Müller", "en"], ["OK", "de"], ["", "en"],
    ["we use the term Handlungsbedarf in der Anlage", "en"], ["会議を始めましょう", "ja"], ["Alles in Ordnung in London", "de"],
    ["Buongiorno a tutti, oggi iniziamo con il bilancio", "en"], // not offered
  ]) assert.equal(otherLanguageOf(text, lang, OFFERED), null, text);
});
