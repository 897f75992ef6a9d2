"""Faithfulness judge by a language model: one prompt a claim, answered in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragcli.errors import LanguageModelError
from ragcli.grounding.faithfulness.claims import Claim, Support

if TYPE_CHECKING:
    from ragcli.llm.chat_model import LanguageModel

_LONGEST_PASSAGES: Final = 12_000
_LONGEST_REPLY: Final = 200


class LlmFaithfulnessJudge:
    """Asks the model of each claim whether its passages support it."""

    name = "llm"

    def __init__(self, model: LanguageModel, prompt: str | None = None) -> None:
        from ragcli.llm.prompts import load_prompt

        self._model = model
        self._prompt = prompt if prompt is not None else load_prompt("faithfulness")

    def judge(self, claims: Sequence[Claim]) -> tuple[Support, ...]:
        """One verdict a claim. Raises LanguageModelError when the model cannot be asked or does not say."""
        return tuple(self._of(claim) for claim in claims)

    def _of(self, claim: Claim) -> Support:
        if not claim.passages:
            return Support(claim.text, False, 0.0, (claim.text,))
        from ragcli.grounding.faithfulness.word_overlap import WordOverlapJudge
        from ragcli.llm.chat_model import Message
        from ragcli.llm.prompts import fill
        from ragcli.llm.reply_parsing import parse_json_object

        shown, room = [], _LONGEST_PASSAGES
        for number, passage in enumerate(claim.passages, 1):
            text = f"[{number}] {passage.about}\n{passage.text}".strip()[:room]
            room -= len(text)
            if text:
                shown.append(text)
        question = fill(self._prompt, {"sentence": claim.text, "passages": "\n\n".join(shown)})
        reply = parse_json_object(self._model.complete([Message("user", question)], max_tokens=_LONGEST_REPLY))
        supported = _truth(reply.get("supported"))
        if supported is None:
            raise LanguageModelError("The language model was asked whether a sentence is supported and did not say.")
        listed = reply.get("missing")
        missing = tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()
        # A model gives no place; the passage with the most of the words is shown.
        near = WordOverlapJudge().judge([claim])[0]
        return Support(
            claim.text, supported, float(supported), () if supported else missing, near.passage, near.start, near.end
        )


def _truth(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "yes": True, "false": False, "no": False}.get(str(value).strip().lower())
