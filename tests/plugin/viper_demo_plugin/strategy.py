"""Strategies: one that writes the same program for every query, one with a model of its own."""

from dataclasses import dataclass
from html import escape

from viper.models.llm.protocol import Sampling
from viper.strategies.base import Conclusion
from viper.strategies.program import Generation, run_program
from viper.strategies.settings import Settings, setting

PROGRAM = """
def execute_command(image):
    return rightmost_of(ImagePatch(image).find({name!r}))
"""


class FirstBox:
    name = "first_box"

    def trials(self, components, context):
        program = PROGRAM.format(name="cup")
        yield from run_program(components, context, Generation(program))


def named_html(parts):
    """Return the part ``named`` of a trace for its page."""
    return "<h2>Named</h2>" + "".join(f"<p>{escape(part['name'])}</p>" for part in parts)


@dataclass(frozen=True)
class NamedSettings(Settings):
    """Settings of strategy ``named_box``."""

    name_tokens: int = setting(8, "Tokens of the name at most.", least=1, most=64, metavar="N")


class NamedBox:
    """Asks its own model what to look for, and tells in the trace what that was."""

    name = "named_box"
    role = "namer"
    settings = NamedSettings

    def trials(self, components, context):
        namer, style = components.model_or_writer(
            self.role, context.settings, "strategy named_box needs a namer", "--strategy program"
        )
        most = context.settings.of(NamedSettings).name_tokens
        name = context.complete(namer, context.query.text, Sampling(max_tokens=most)).text
        program = PROGRAM.format(name=name)
        yield from run_program(components, context, Generation(program))
        return Conclusion(parts={"named": [{"name": name, "style": style, "tokens": most}]})
