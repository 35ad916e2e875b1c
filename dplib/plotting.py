"""One look for every figure: seaborn's colour-blind palette, readable sizes, bands that say what they are."""

import matplotlib.pyplot as plt
import seaborn as sns

SIZE = (7.0, 4.2)  # inches, for one panel
WIDE = (10.0, 4.0)  # inches, for two panels side by side


def theme() -> None:
    """Set the book's theme; once, in a chapter's first code cell after the checks."""
    sns.set_theme(context="notebook", style="whitegrid", palette="colorblind", font_scale=0.95)
    # White behind the axes: the figures stay legible on the dark pages of the site.
    plt.rcParams.update(
        {"figure.figsize": SIZE, "figure.facecolor": "white", "figure.dpi": 110, "savefig.bbox": "tight"}
    )


def band(axes: plt.Axes, x, low, high, **style) -> None:
    """A shaded interval around a curve, in the colour of the line drawn last."""
    style = {"color": axes.lines[-1].get_color(), "alpha": 0.2, "linewidth": 0} | style
    axes.fill_between(x, low, high, **style)
