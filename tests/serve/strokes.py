"""Digits and other shapes as pen strokes, drawn as people draw them: never twice the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Stroke = NDArray[np.float64]


def arc(x: float, y: float, wide: float, high: float, start: float, end: float) -> Stroke:
    """Points of an ellipse between two angles in degrees, clockwise from the right."""
    t = np.radians(np.linspace(start, end, 24))
    return np.column_stack([x + wide * np.cos(t), y + high * np.sin(t)])


def line(*points: tuple[float, float]) -> Stroke:
    """Points that are joined by straight lines."""
    return np.array(points)


SHAPES: dict[str, list[Stroke]] = {
    "0": [arc(0.3, 0.5, 0.3, 0.5, -90, 270)],
    "1": [line((0.1, 0.2), (0.3, 0), (0.3, 1))],
    "2": [np.vstack([arc(0.3, 0.28, 0.28, 0.28, -170, 40), line((0, 1), (0.6, 1))])],
    "3": [np.vstack([arc(0.25, 0.26, 0.3, 0.26, -150, 90), arc(0.25, 0.75, 0.33, 0.25, -90, 150)])],
    "4": [line((0.4, 0), (0, 0.65), (0.62, 0.65)), line((0.45, 0.3), (0.45, 1))],
    "5": [
        np.vstack([line((0.55, 0), (0.1, 0), (0.06, 0.45)), arc(0.25, 0.7, 0.32, 0.3, -110, 140)])
    ],
    "6": [
        np.vstack(
            [line((0.45, 0), (0.2, 0.25), (0.04, 0.6)), arc(0.3, 0.72, 0.27, 0.28, 180, -180)]
        )
    ],
    "7": [line((0, 0), (0.58, 0), (0.2, 1)), line((0.15, 0.5), (0.5, 0.5))],
    "8": [np.vstack([arc(0.3, 0.25, 0.24, 0.25, 90, 450), arc(0.3, 0.75, 0.3, 0.25, -90, 270)])],
    "9": [np.vstack([arc(0.3, 0.28, 0.27, 0.28, 0, -360), line((0.57, 0.28), (0.5, 1))])],
    "heart": [
        np.vstack(
            [
                line((0.5, 1), (0, 0.35)),
                arc(0.25, 0.25, 0.25, 0.25, 170, 350),
                arc(0.75, 0.25, 0.25, 0.25, 190, 370),
                line((0.5, 1)),
            ]
        )
    ],
}


def drawn(name: str, rng: np.random.Generator, much: float = 0.3) -> list[list[list[float]]]:
    """The strokes of a shape, turned, stretched and leaning a little, within the unit square."""
    turn, lean = 0.07 * much * rng.standard_normal(), 0.15 * much * rng.standard_normal()
    wide, high = 0.55 * np.exp(0.1 * much * rng.standard_normal(2))
    shift = rng.uniform(0.15, 0.25, 2)
    move: Any = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    move = move @ np.array([[wide, lean * wide], [0, high]])
    return [(stroke @ move.T + shift).tolist() for stroke in SHAPES[name]]
