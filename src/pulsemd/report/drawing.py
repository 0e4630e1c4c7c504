"""Pictures of boxes and words, as SVG by itself or as PNG through matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pulsemd.base.errors import ConfigError
from pulsemd.io.output import replacing, write_whole

_DPI = 200


@dataclass(frozen=True)
class Box:
    """A filled rectangle, px from the upper left corner; ``title`` shows where a pointer rests on it."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    title: str = ""
    outlined: bool = False


@dataclass(frozen=True)
class Words:
    """A line of text that begins at (x, y), or is centered there, with its size, all in px."""

    x: float
    y: float
    text: str
    size: float = 12
    centered: bool = False
    fill: str = "black"


@dataclass(frozen=True)
class Drawing:
    """Shapes in the order in which they are painted, on a white ground of ``width`` by ``height`` px."""

    width: float
    height: float
    shapes: Sequence[Box | Words]

    def save(self, path: Path) -> None:
        """Write a file, PNG where its name ends so, else SVG.

        Raises
        ------
        ConfigError
            For a PNG without matplotlib.
        OutputError
            If it cannot be written.
        """
        if path.suffix == ".png":
            self._save_png(path)
        else:
            write_whole(path, [self.svg().encode()])

    def svg(self) -> str:
        """The picture as text."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{self.height:g}" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" font-family="Helvetica, Arial, sans-serif">'
        )
        ground = f'<rect width="{self.width:g}" height="{self.height:g}" fill="white"/>'
        return "\n".join([head, ground, *map(_as_svg, self.shapes), "</svg>", ""])

    def _save_png(self, path: Path) -> None:
        try:
            from matplotlib.figure import Figure
            from matplotlib.patches import Rectangle
        except ImportError as error:
            raise ConfigError(
                f"{path}: a PNG needs matplotlib; pip install 'pulsemd[plots]', or give a name with .svg"
            ) from error
        figure = Figure(figsize=(self.width / 100, self.height / 100))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for shape in self.shapes:
            if isinstance(shape, Box):
                edge = {"edgecolor": "black", "linewidth": 1.1} if shape.outlined else {"linewidth": 0.0}
                corner = shape.x, shape.y
                axes.add_patch(Rectangle(corner, shape.width, shape.height, facecolor=shape.fill, **edge))
            else:
                axes.text(
                    shape.x,
                    shape.y,
                    shape.text,
                    fontsize=0.72 * shape.size,
                    ha="center" if shape.centered else "left",
                    color=shape.fill,
                    parse_math=False,
                )
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=_DPI, format="png")


def _as_svg(shape: Box | Words) -> str:
    if isinstance(shape, Words):
        anchor = ' text-anchor="middle"' if shape.centered else ""
        return (
            f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size:g}" fill="{shape.fill}"{anchor}>'
            f"{escape(shape.text)}</text>"
        )
    line = ' stroke="black" stroke-width="1.5"' if shape.outlined else ""
    place = f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{shape.width:.2f}" height="{shape.height:.2f}"'
    return f'<rect {place} fill="{shape.fill}"{line}><title>{escape(shape.title)}</title></rect>'
