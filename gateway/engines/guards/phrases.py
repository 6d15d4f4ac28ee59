"""What the guards know of languages: what models say, and what a language looks like.

Owns: the words around a translation, the words instead of one, the letters of scripts, and which
languages are near each other. Data, and how it is looked for: to teach the guards a language,
change this file alone.
Must not know: the rules and their limits (`gateway.engines.guards.stream`).
"""

from __future__ import annotations

import re


class Phrases:
    """A pattern for text of any case, and ``signs`` of which all that it finds has one.

    To look for the signs takes a twentieth of the time, and nearly no text has any.
    """

    def __init__(self, *signs: str, pattern: str) -> None:
        self.signs = tuple(map(str.casefold, signs))
        self.pattern = re.compile(pattern, re.IGNORECASE)

    def search(self, text: str) -> re.Match[str] | None:
        """The first place that the pattern finds."""
        folded = text.casefold()
        if not folded.isascii():  # to a pattern these are the same letter
            folded = folded.replace("i\u0307", "i").replace("\u0131", "i")
        for sign in self.signs:
            if sign in folded:
                return self.pattern.search(text)
        return None


TRANSLATION = frozenset(
    "translation translations translated translate übersetzung übersetzt übersetzungen traduction"
    " traduit traduite traducción traducido traducida tradução traduzido traduzione tradotto"
    " vertaling перевод переклад tłumaczenie çeviri 翻译 翻译结果 译文 翻譯 譯文 번역"
    " 翻訳 翻訳文 訳 訳文 日本語訳 中文翻译 翻译如下"
    " 以下是翻译 以下是译文 以下は翻訳です 以下が翻訳です".split()
)
"""A head is a preamble only with one of these in it, and only if the source has none."""

OPENERS = TRANSLATION | frozenset(
    "sure certainly absolutely of here here's hier gerne natürlich voici aquí claro вот 好的 当然"
    " 當然 以下".split()
)
"""Words such a head begins with. Few and telling: the reader waits as long as it may be one."""

AROUND = OPENERS | frozenset(
    "a an the your in into to from for is are as it text sentence line version following course"
    " requested i'll happily english german french spanish italian portuguese dutch russian chinese"
    " japanese korean ist die der das deine ihre folgende ins auf von deutsch deutsche englische"
    " französische spanische la le votre en de du française anglaise allemande está tienes su al"
    " español inglés francés на русский は です".split()
)
"""What else it is made of. Any other word ends it: then it is the translation itself."""

QUOTES = {
    '"': '"',
    "“": "”",
    "„": "“”",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
}
"""An opening quote to those that may close it."""

QUOTED = re.compile(r"[\"“”„«»‹›「」『』‘]|(?:^|\s)'")
"""A source with quotes of its own: those of the output are then left alone."""

NOTES = re.compile(
    r"[(\[（【]\W*(?:(?:translator'?s?|the)\s+)?"
    r"(?:note\b|translation\b|translated\b|literally\b|lit\.|anmerkung|hinweis:|übersetz|wörtlich"
    r"|remarque|traduction|traduit|littéralement|ndt\b|nota\b|traducción|traducido|literalmente"
    r"|примечание|перевод|译注|注[：:]|注意[：:]|翻译|訳注|注釈|翻訳)",
    re.IGNORECASE,
)
"""A bracket that begins with a comment on the translation."""

BRACKET = re.compile(r"[(\[（【]")
"""A source with brackets of its own may have such a comment in one."""

REFUSALS = Phrases(
    "sorry",
    "i can",
    "i'm unable",
    "i am unable",
    "i'm not able",
    "i am not able",
    "es tut mir leid",
    "ich kann dir",
    "ich kann ihnen",
    "je suis",
    "lo siento",
    "no puedo ayudarte",
    "申し訳",
    "对不起",
    "抱歉",
    pattern=r"\bI(?:'m| am)(?: very| so)? sorry,? (?:but )?I"
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
"""A model declines. People do too: see `REFUSING`."""

ASSISTANTS = Phrases(
    "as an ",
    "as a ",
    "als ein",
    "als ki",
    "als sprachmodell",
    "en tant qu",
    "como ",
    "として",
    "作为",
    pattern=r"\bas an (?:AI|artificial intelligence|language model)\b"
    r"|\bas a (?:large )?language model\b"
    r"|\bals (?:eine? )?(?:KI|Sprachmodell)\b|\ben tant qu(?:'IA|e modèle)\b|\bcomo (?:una )?IA\b"
    r"|\bcomo modelo de lenguaje\b|AI(?:アシスタント|言語モデル)?として"
    r"|作为(?:一个|一名)?(?:AI|人工智能|(?:大型)?语言模型)",
)
"""A model speaks of itself, unless the source has one of `MODELS`."""

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
"""Signs, by language of the source, that it may itself refuse something. Others are not judged."""

MODELS = re.compile(
    r"(?<![^\W_])(?:AI|IA|KI|LLMs?|ИИ)(?![a-z])|(?i:mod[eè]l)|artific|künstlich|人工|モデル|模型"
)
"""Signs that the source is about such models itself."""

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
    """``words`` where they begin one, in text of lower case. Their first three letters stand before
    what looks back from them: a search skips what has no such letters, and that is nearly all."""
    return re.compile("|".join(rf"{word[:3]}(?<![^\W_]...){word[3:]}" for word in words.split()))


RUDE = {
    language: re.compile(words.replace(" ", "|")) if language == "zh" else _at_a_word(words)
    for language, words in _RUDE.items()
}
"""Words that a small model has made of harmless ones, by language of the translation; they are
sought in lower case."""

CRUDE = re.compile(
    r"(?<![^\W_])(?:fuck|shit|crap|damn|hell\b|bloody|bitch|bastard|cunt|whore|slut|prostitut|rape|sex"
    r"|porn|ass(?:hole)?\b|arse|piss|screw|suck|bugger|nigg|fag|tits?\b|boobs?\b|dick|cock|prick"
    r"|fick|schei|mist\b|arsch|hure|nutte|schlampe|titte|busen|vergewaltig|verdammt|kack|pinkel"
    r"|merde|put(?:e|ain|ains)\b|salop|salaud|conn(?:e|ard)|encul|cul\b|viol|chier|baiser|nique"
    r"|mierda|puta|puto|joder|coño|cabr|gilipoll|polla|folla|maric|carajo|hostia|leche|culo|chinga|verga)"
    r"|くそ|クソ|糞|畜生|セックス|レイプ|強姦|売春|娼婦|死ね|ちんこ|チンコ|他妈|操你|我操|傻逼|婊|妓|强奸|屎|屁|混蛋|妈的|鸡巴",
    re.IGNORECASE,
)
"""Signs, in any of these languages, that the source is crude itself: then nothing is judged."""

NEAR = (
    frozenset(("da", "nb", "nn", "no", "sv")),
    frozenset(("ast", "ca", "es", "gl", "oc", "pt")),
    frozenset(("be", "bg", "mk", "ru", "uk")),
    frozenset(("bs", "hr", "sh", "sl", "sr")),
    frozenset(("cs", "sk")),
    frozenset(("id", "jv", "ms", "su")),
    frozenset(("af", "nl", "fy", "nds", "li")),
    frozenset(("de", "lb", "gsw", "nds")),
    frozenset(("yue", "wuu", "zh", "lzh")),
    frozenset(("hi", "mr", "ne", "mai", "bho")),
    frozenset(("az", "tk", "tr", "crh")),
    frozenset(("et", "fi")),
    frozenset(("fa", "prs", "tg")),
)
"""Languages in which a whole sentence can be the same: copies between them are not judged."""

LETTERS = {
    "Arab": ("ARABIC",),
    "Armn": ("ARMENIAN",),
    "Beng": ("BENGALI",),
    "Cyrl": ("CYRILLIC",),
    "Deva": ("DEVANAGARI",),
    "Ethi": ("ETHIOPIC",),
    "Geor": ("GEORGIAN",),
    "Grek": ("GREEK",),
    "Gujr": ("GUJARATI",),
    "Guru": ("GURMUKHI",),
    "Hans": ("CJK",),
    "Hant": ("CJK",),
    "Hebr": ("HEBREW",),
    "Jpan": ("CJK", "HIRAGANA", "KATAKANA"),
    "Khmr": ("KHMER",),
    "Knda": ("KANNADA",),
    "Kore": ("HANGUL", "CJK"),
    "Laoo": ("LAO",),
    "Latn": ("LATIN",),
    "Mlym": ("MALAYALAM",),
    "Mymr": ("MYANMAR",),
    "Sinh": ("SINHALA",),
    "Taml": ("TAMIL",),
    "Telu": ("TELUGU",),
    "Thai": ("THAI",),
}
"""ISO 15924 script to the first word of its letters' Unicode names. Others are not judged."""

DENSE_LETTERS = frozenset(("CJK", "HIRAGANA", "KATAKANA"))

KNOWN = frozenset(name for names in LETTERS.values() for name in names)
"""Every name of letters in `LETTERS`: other characters belong to no script."""
