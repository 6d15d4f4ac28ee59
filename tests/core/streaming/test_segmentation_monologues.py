"""Whole monologues: the captions that come of them, and no word lost or said twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.streaming.partials import PartialPolicy, PartialTiming
from gateway.core.streaming.segmentation import cut, remainder
from gateway.text import word_units
from tests.core.streaming.test_segmentation import LENGTHS, keys

# Texts as a recogniser returns them, without capitals and marks. Each line should be a caption.
MONOLOGUES = {
    "en": [
        "good morning everyone thanks for joining so quickly today i would like to talk about the"
        " budget for the next year",
        "and what it means for our team as you know we spent a bit more than we planned in the last"
        " two quarters",
        "mainly because we hired two engineers and the server costs went up in march",
        "but i think that we can bring that down again if we move some of the older machines to the"
        " new data center which should be ready in september",
        "and then we would save about twelve percent a month",
    ],
    "de": [
        "guten morgen zusammen schön dass ihr alle da seid ich möchte heute kurz über das budget"
        " für das nächste jahr sprechen",
        "und darüber was es für unser team bedeutet wie ihr wisst haben wir in den letzten beiden"
        " quartalen etwas mehr ausgegeben als geplant",
        "vor allem weil wir zwei entwickler eingestellt haben und weil die serverkosten im märz"
        " gestiegen sind",
        "aber ich denke dass wir das wieder senken können wenn wir einen teil der alten rechner in"
        " das neue rechenzentrum umziehen",
    ],
    "fr": [
        "bonjour à tous merci d'être venus aussi nombreux aujourd'hui je voudrais parler du budget"
        " de l'année prochaine",
        "et de ce qu'il veut dire pour notre équipe comme vous le savez nous avons dépensé un peu"
        " plus que prévu au cours des deux derniers trimestres",
        "surtout parce que nous avons embauché deux ingénieurs et que les coûts des serveurs ont"
        " augmenté en mars",
        "mais je pense qu'on peut les réduire si on déplace une partie des anciennes machines",
    ],
    "es": [
        "buenos días a todos gracias por venir hoy me gustaría hablar del presupuesto del año que"
        " viene",
        "y de lo que significa para nuestro equipo como sabéis hemos gastado un poco más de lo"
        " previsto en los dos últimos trimestres",
        "sobre todo porque contratamos a dos ingenieros y porque los costes de los servidores"
        " subieron en marzo",
        "pero creo que podemos bajarlos de nuevo si trasladamos parte de las máquinas antiguas",
    ],
    "ja": [
        "皆さんおはようございます今日は来年の予算についてお話ししたいと思います",
        "ご存じの通り過去二四半期は予定より少し多く支出しましたが",
        "これは主にエンジニアを二人採用してサーバーの費用が三月に上がったためです",
        "ただ古い機械の一部を九月に完成する新しいデータセンターに移せばまた下げることができると思い"
        "ます",
        "それから出張費についてもう一つ提案があります",
    ],
    "zh": [
        "大家早上好今天我想谈谈明年的预算以及它对我们团队意味着什么大家知道过去两个季度我们的支出比"
        "计划多了一些",
        "主要是因为我们招了两位工程师而且服务器的费用在三月份上涨了",
        "但是我认为如果我们把一部分旧机器搬到九月份完工的新数据中心就可以把费用降下来",
        "另外关于出差的费用我还有一个建议希望大家看一下我昨天发的文件",
    ],
}


def whole(lang: str) -> str:
    return (" " if word_units.spaced(lang) else "").join(MONOLOGUES[lang])


def captions(partials: Sequence[str], lang: str) -> list[str]:
    """Segment a growing text as a room does: return the complete captions, then the open part."""
    done: list[str] = []
    consumed: list[str] = []
    policy = PartialPolicy(PartialTiming())
    rest = ""
    for now, text in enumerate(partials):
        rest = remainder(text, consumed, lang)
        policy.offer(rest, lang, now / 10)
        while (at := cut(policy.agreed, lang, LENGTHS)) is not None:
            done.append(policy.agreed[:at])
            consumed += keys(done[-1], lang)
            policy = policy.rest(len(keys(done[-1], lang)))
            rest = remainder(text, consumed, lang)
    return [*done, rest]


def growing(text: str, lang: str) -> list[str]:
    made = word_units.split(text, word_units.spaced(lang))
    return ["".join(made[: count + 1]) for count in range(len(made))]


@pytest.mark.parametrize("lang", MONOLOGUES)
def test_a_monologue_without_marks_is_cut_between_clauses(lang: str) -> None:
    assert captions(growing(whole(lang), lang), lang) == MONOLOGUES[lang]


@pytest.mark.parametrize("lang", MONOLOGUES)
def test_a_monologue_that_arrives_at_once_is_cut_into_readable_captions(
    lang: str,
) -> None:
    text = whole(lang)
    lines = captions([text, text], lang)
    assert len(lines) >= 3
    assert all(len(keys(line, lang)) <= LENGTHS.hard * word_units.density(lang) for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_monologue_with_marks_is_cut_between_sentences() -> None:
    text = (
        "Good morning. Thanks for coming. Today I would like to talk about the budget."
        " We spent 3.5 million euros, which is more than Dr. Smith and I had planned."
        " Why? Mainly because of the servers, I think. So what can we do?"
    )
    assert captions(growing(text, "en"), "en") == [
        "Good morning. Thanks for coming. Today I would like to talk about the budget.",
        "We spent 3.5 million euros, which is more than Dr. Smith and I had planned.",
        "Why? Mainly because of the servers, I think.",
        "So what can we do?",
    ]


def test_a_monologue_with_full_width_marks_is_cut_between_sentences() -> None:
    text = (
        "大家好。今天我们来谈谈明年的预算，以及它对团队的影响。"
        "去年我们一共花了二十四万欧元。为什么？因为服务器的费用上涨了。"
    )
    assert captions(growing(text, "zh"), "zh") == [
        "大家好。今天我们来谈谈明年的预算，以及它对团队的影响。",
        "去年我们一共花了二十四万欧元。为什么？",
        "因为服务器的费用上涨了。",
    ]


def test_late_corrections_before_a_cut_neither_lose_nor_repeat_words() -> None:
    text = whole("en")
    partials = growing(text, "en")
    late = partials[-20:]
    for spoken, written in (
        ("good morning", "Good Morning,"),
        ("two engineers", "2 engineers"),
        ("the server costs went", "these servers cost went"),
    ):
        late = [partial.replace(spoken, written) for partial in late]
    assert captions([*partials[:-20], *late], "en") == MONOLOGUES["en"]


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "b.",
                "But",
                "c,",
                "and",
                "So",
                "13.",
                "z.",
                "Jan.",
                "5",
                "“Why?",
                "Yes.”",
                "(no!)",
            ]
        ),
        max_size=150,
    ),
    st.sampled_from(["en", "de", "fr"]),
)
def test_a_text_that_grows_word_by_word_loses_no_word(said: list[str], lang: str) -> None:
    text = " ".join(said)
    assert " ".join(captions(growing(text, lang), lang)).strip() == text
