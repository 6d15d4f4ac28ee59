"""Language data of the guards: phrases of models, rude words, related languages.

Owns: the words that surround a translation or stand instead of it, and which languages are near
each other. To add a language to the guards, change this file alone. Must
not know: the rules and their limits (`gateway.engines.guards.streaming_output`).
"""

from __future__ import annotations

import re


class Phrases:
    """A pattern that ignores case, with plain strings to look for first.

    A search for the signs takes a twentieth of the time of the pattern, and nearly no text has one.

    :param signs: strings with bars between them, case-folded; every text that the pattern matches
        contains one of them
    """

    def __init__(self, signs: str, pattern: str) -> None:
        self.signs = signs.split("|")
        self.pattern = re.compile(pattern, re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match of the pattern, or None."""
        folded = text.casefold()
        if not folded.isascii():  # a pattern that ignores case treats these letters as "i"
            folded = folded.replace("i\u0307", "i").replace("\u0131", "i")
        return self.pattern.search(text) if any(map(folded.__contains__, self.signs)) else None


TRANSLATION = frozenset(
    "translation translations translated translate übersetzung übersetzt übersetzungen traduction"
    " traduit traduite traducción traducido traducida tradução traduzido traduzione tradotto"
    " vertaling перевод переклад tłumaczenie çeviri 翻译 翻译结果 译文 翻譯 譯文 번역"
    " 翻訳 翻訳文 訳 訳文 日本語訳 中文翻译 翻译如下"
    " 以下是翻译 以下是译文 以下は翻訳です 以下が翻訳です".split()
)
"""Words of which a preamble must have one, and its source none."""

OPENERS = TRANSLATION | frozenset(
    "sure certainly absolutely of here here's hier gerne natürlich voici aquí claro вот 好的 当然"
    " 當然 以下".split()
)
"""Words with which a preamble begins. The list is short, because the reader waits while the output
may still be a preamble."""

AROUND = OPENERS | frozenset(
    "a an the your in into to from for is are as it text sentence line version following course"
    " requested i'll happily english german french spanish italian portuguese dutch russian chinese"
    " japanese korean ist die der das deine ihre folgende ins auf von deutsch deutsche englische"
    " französische spanische la le votre en de du française anglaise allemande está tienes su al"
    " español inglés francés на русский は です".split()
)
"""Further words of preambles. A text with any other word is the translation itself."""

QUOTES = {'"': '"', "“": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』"}
"""Opening quotes to the quotes that may close them."""

QUOTED = re.compile(r"[\"“”„«»‹›「」『』‘]|(?:^|\s)'")
"""Signs of quotes in a source. The quotes of its output are then left as they are."""

# A bound, because a search for the end of each of thousands of quotes takes long.
QUOTATION = re.compile(
    r"[\"“„«»‹「『‘][^\"“”«»›」』’]{1,200}[\"“”«»›」』’]|(?<!\w)'[^']{1,200}'(?!\w)"
)
"""A quotation in a source. It may stay in its own language."""

NOTES = re.compile(
    # Eight, because a search without a bound tries each bracket of thousands to the end.
    r"[(\[（【]\W{0,8}(?:(?:translator'?s?|the)\s+)?"
    r"(?:note\b|translation\b|translated\b|literally\b|lit\.|anmerkung|hinweis:|übersetz|wörtlich"
    r"|remarque|traduction|traduit|littéralement|ndt\b|nota\b|traducción|traducido|literalmente"
    r"|примечание|перевод|译注|注[：:]|注意[：:]|翻译|訳注|注釈|翻訳)",
    re.IGNORECASE,
)
"""Brackets that begin with a comment on the translation."""

BRACKET = re.compile(r"[(\[（【]")
"""Brackets in a source. Its output may then have brackets too, and is not judged for `NOTES`."""

REFUSALS = Phrases(
    "sorry|i can|i'm unable|i am unable|i'm not able|i am not able|es tut mir leid|ich kann dir"
    "|ich kann ihnen|je suis|lo siento|no puedo ayudarte|申し訳|对不起|抱歉",
    r"\bI(?:'m| am)(?: very| so)? sorry,? (?:but )?I"
    r"(?: can(?:no|')t|'m (?:not able|unable)| am unable)"
    r"|\bI can(?:no|')t (?:help (?:you|with)|assist|comply|fulfil|provide|translate)\b"
    r"|\bI(?:'m| am) (?:unable|not able) to (?:help|assist|comply|fulfil|provide|translate)\b"
    r"|\bEs tut mir leid,? aber (?:ich kann|dabei|das kann ich)"
    r"|\bIch kann (?:dir|Ihnen) (?:dabei|damit) (?:leider )?nicht helfen"
    r"|\bJe suis (?:vraiment )?désolée?,? mais je ne (?:peux|suis) pas"
    r"|\bLo siento,? pero no puedo|\bno puedo ayudarte con eso"
    r"|申し訳(?:ありません|ございません)が.{0,30}(?:できません|できかねます)"
    r"|(?:对不起|抱歉)，(?:但)?我(?:不能|无法)",
)
"""Phrases with which a model declines. People use them too: see `REFUSING`."""

ASSISTANTS = Phrases(
    "as an |as a |als ein|als ki|als sprachmodell|en tant qu|como |として|作为",
    r"\bas an (?:AI|artificial intelligence|language model)\b"
    r"|\bas a (?:large )?language model\b"
    r"|\bals (?:eine? )?(?:KI|Sprachmodell)\b|\ben tant qu(?:'IA|e modèle)\b|\bcomo (?:una )?IA\b"
    r"|\bcomo modelo de lenguaje\b|AI(?:アシスタント|言語モデル)?として"
    r"|作为(?:一个|一名)?(?:AI|人工智能|(?:大型)?语言模型)",
)
"""Phrases with which a model speaks of itself, unless the source has one of `MODELS`."""

REFUSING = {
    tag: re.compile(pattern, re.IGNORECASE)
    for tag, pattern in {
        "en": r"\b(?:not?|cannot|cant|\w+n['’]t|never|unable|sorry|afraid|unfortunate\w*|regret)\b",
        "de": r"\b(?:nicht|kein\w*|nichts|nie\w*|leid\w*|leider|entschuld\w*|bedau\w*|unmöglich)\b",
        "fr": r"\b(?:ne|n['’]\w+|pas|jamais|désolée?s?|malheur\w+|regret\w*|pardon|incapa\w+)\b",
        "es": r"\b(?:no|nunca|nada|siento|sentimos|lament\w+|perd[oó]n\w*|disculp\w*|imposible)\b",
        "ja": r"ない|ません|ん|なく|無|不|ず|申し訳|すみま|すいま|ごめん|残念|失礼|悪い",
        "zh": r"不|没|無|无|别|抱歉|遗憾|恐怕|难",
    }.items()
}
"""Signs, by language of the source, that the source itself may refuse something. Sources in other
languages are not judged."""

MODELS = re.compile(
    r"(?<![^\W_])(?:AI|IA|KI|LLMs?|ИИ)(?![a-z])|(?i:mod[eè]l)|artific|künstlich|人工|モデル|模型"
)
"""Signs that the source is about language models."""

_RUDE = {
    "en": r"fuck motherf shit bitch cunt whore slut asshole nigg(?:er|a(?=[\W_])) faggot",
    "de": r"fick(?:t|en|e)?(?=[\W_]) fotze huren?(?=[\W_]) titten schei(?:ß|ss) arschl wichs nutte",
    "fr": r"putain pute(?=[\W_]) merde salopes?(?=[\W_]) salaud connard connasse encul"
    r" nique(?:r|s)?(?=[\W_])",
    "es": r"puta(?:s)?(?=[\W_]) mierda joder coño cabr[óo]n gilipoll pollas?(?=[\W_]) follar"
    r" maric[óo]n",
    "zh": r"他妈的 操你 傻逼 婊子 妓女 强奸 鸡巴 你妈的",
}


def _at_a_word(words: str) -> re.Pattern[str]:
    """Return a pattern that finds ``words`` at the beginning of a word, in lower-case text."""
    # The first three letters stand before the look-behind, so that a search skips nearly all text
    # by a comparison of letters.
    return re.compile("|".join(rf"{word[:3]}(?<![^\W_]...){word[3:]}" for word in words.split()))


RUDE = {
    language: re.compile(words.replace(" ", "|")) if language == "zh" else _at_a_word(words)
    for language, words in _RUDE.items()
}
"""Rude words, by language of the translation, that a small model has made of harmless ones. The
patterns are for lower-case text."""

CRUDE = re.compile(
    r"(?<![^\W_])(?:fuck|shit|crap|damn|hell\b|bloody|bitch|bastard|cunt|whore|slut|prostitut|rape|sex"
    r"|porn|ass(?:hole)?\b|arse|piss|screw|suck|bugger|nigg|fag|tits?\b|boobs?\b|dick|cock|prick"
    r"|fick|schei|mist\b|arsch|hure|nutte|schlampe|titte|busen|vergewaltig|verdammt|kack|pinkel"
    r"|merde|put(?:e|ain|ains)\b|salop|salaud|conn(?:e|ard)|encul|cul\b|viol|chier|baiser|nique"
    r"|mierda|puta|puto|joder|coño|cabr|gilipoll|polla|folla|maric|carajo|hostia|leche|culo|chinga|verga)"
    r"|くそ|クソ|糞|畜生|セックス|レイプ|強姦|売春|娼婦|死ね|ちんこ|チンコ|他妈|操你|我操|傻逼|婊|妓|强奸|屎|屁|混蛋|妈的|鸡巴",
    re.IGNORECASE,
)
"""Signs, in several languages, that the source is crude. Its output is then not judged as rude."""

NEAR = [
    frozenset(family.split())
    for family in (
        "da nb nn no sv|ast ca es gl oc pt|be bg mk ru uk|bs hr sh sl sr|cs sk|id jv ms su"
        "|af nl fy nds li|de lb gsw nds|yue wuu zh lzh|hi mr ne mai bho|az tk tr crh|et fi"
        "|fa prs tg"
    ).split("|")
]
"""Families of languages in which a whole sentence can be the same. Copies are not judged there."""

FILLERS = frozenset(
    "um umm uhm uh uhh erm em hm hmm mm mhm ah oh eh ehh äh ähm ehm öh öhm euh heu эм э ээ хм"
    " えっと えーっと えと えーと ええと ええっと えー ええ あの あのー うーん んー"
    " 嗯 嗯嗯 呃 额 唔 啊 음".split()
)
"""Words that fill a pause. A source of nothing else may have no translation."""

CURRENCY_LANGUAGES = frozenset(("de", "en", "es", "fr", "ja", "zh"))
"""Languages whose words are in `CURRENCIES`."""

CURRENCIES = {
    sign: re.compile(pattern, re.IGNORECASE)
    for sign, pattern in {
        "$": r"\$|dollar|dólar|buck|peso|usd|ドル|弗|美元|美金|元|刀",
        "€": r"€|euro|eur\b|ユーロ|欧元|歐元",
        "£": r"£|pound|pfund|livre|libra|sterling|quid|gbp|ポンド|镑|鎊",
        "¥": r"¥|yen|yuan|rmb|jpy|cny|renminbi|円|元|块|塊",
    }.items()
}
"""Sign of a currency to a pattern of its names in a translation."""
