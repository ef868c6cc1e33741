"""Second moments of all classes as the construction needs them: as matrices or as factors.

A class whose second moment has a rank well below d is stored as a factor, read from the
columns that hold it, and directions that no sample has are left out; both are exact, and
chosen here from the moments alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from redunet.core.allocation import Allocate, in_memory, on_device
from redunet.core.eigenvectors import top_eigenvectors
from redunet.core.factors import gram_eigenvectors
from redunet.core.linalg import add_identity
from redunet.core.low_rank import Stack, stacked
from redunet.core.moments import ClassMoments, Label
from redunet.core.reduced_space import ReducedSpace

DRAWN_PER_CLASS = 8
"""Samples that are drawn of a class, at least."""

LARGEST_ON_GPU = 2**30
"""Bytes of matrices, or of factors, that stay on a GPU while it has others to work with; more wait
in the memory of the CPU."""

FACTORED_UP_TO = 0.4
"""A class of a rank up to this share of d is built and applied faster as a factor. By operations
alone it would be 0.69 in layers and 0.5 in answers; chosen by hand below both."""

_SUMMED = 2**26
"""Numbers of factors that are brought into float64 at a time."""

LEAST_SHARE = 2.0**-20
"""What makes a second moment definite, as a share of its mean eigenvalue."""


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Second moments of all classes, as matrices or as factors.

    Parameters
    ----------
    dense : tuple of g int
        Indices, in the order of all labels, of the classes that have a matrix.
    Sigma : Tensor of shape (g, s, s)
        With s the dimension of the reduced space, or d where there is none.
    stacks : tuple of Stack
        The other classes.
    space : ReducedSpace, default=None
        What the moments lie within.
    allocate : Allocate, default=in_memory
        Memory for matrices of classes, also for those that are made of these.
    """

    dense: tuple[int, ...]
    Sigma: Tensor
    stacks: tuple[Stack, ...] = ()
    space: ReducedSpace | None = None
    allocate: Allocate = in_memory

    @classmethod
    def of_matrices(cls, Sigma: Tensor, allocate: Allocate = in_memory) -> SecondMoments:
        """Those given as matrices, (k, d, d)."""
        return cls(tuple(range(len(Sigma))), Sigma, allocate=allocate)

    @classmethod
    def of(cls, moments: ClassMoments, dtype: torch.dtype, device: str) -> SecondMoments:
        """Those of class moments, in factors and within a reduced space where that is faster."""
        return UnreadMoments.of(moments, dtype, device).placed()

    def on(self, device: torch.device) -> SecondMoments:
        """The same with its matrices and factors on a device."""
        if {self.Sigma.device, *(stack.B.device for stack in self.stacks)} == {device}:
            return self
        stacks = tuple(Stack(stack.classes, stack.B.to(device)) for stack in self.stacks)
        return replace(self, Sigma=self.Sigma.to(device), stacks=stacks)

    def moved(self, stacks: tuple[Stack, ...]) -> SecondMoments:
        """The same matrices with other factors."""
        return replace(self, stacks=stacks)

    def select(self, classes: Iterable[int]) -> SecondMoments:
        """Those of some classes."""
        wanted = set(classes)
        rows = [row for row, j in enumerate(self.dense) if j in wanted]
        stacks = []
        for stack in self.stacks:
            of = [row for row, j in enumerate(stack.classes) if j in wanted]
            if of:
                stacks.append(Stack(tuple(stack.classes[row] for row in of), stack.B[of]))
        dense = tuple(self.dense[row] for row in rows)
        return replace(self, dense=dense, Sigma=self.Sigma[rows], stacks=tuple(stacks))

    @property
    def places(self) -> list[int]:
        """The indices of the classes, ascending."""
        return sorted([*self.dense, *(j for stack in self.stacks for j in stack.classes)])

    @property
    def n_classes(self) -> int:
        """k, of both kinds."""
        return len(self.places)

    @property
    def n_features(self) -> int:
        """D."""
        return self.Sigma.shape[-1] if self.space is None else self.space.d

    @property
    def layer_bytes(self) -> int:
        """The memory that a layer made of these moments takes."""
        return self.layer_numbers * self.Sigma.element_size()

    @property
    def layer_numbers(self) -> int:
        """The numbers that such a layer is made of."""
        s = self.Sigma.shape[-1]
        inner = sum(stack.B.numel() + len(stack.rows) * stack.B.shape[1] for stack in self.stacks)
        return (len(self.dense) + 1) * s * s + inner

    def full(self) -> Tensor:
        """Second moments of the classes as matrices: a copy, (k, d, d)."""
        s, row = self.Sigma.shape[-1], {j: row for row, j in enumerate(self.places)}
        out = on_device(self.allocate, (len(row), s, s), self.Sigma.dtype, self.Sigma.device)
        out[[row[j] for j in self.dense]] = self.Sigma
        for stack in self.stacks:
            for some in stack.parts():
                B = some.B.to(out)
                out[[row[j] for j in some.classes]] = B.mT @ B
        return out if self.space is None else self.space.lift(out)

    @property
    def sum(self) -> Tensor:
        """The second moments of all classes, added up: Tensor of shape (d, d), float64."""
        if "_sum" not in self.__dict__:  # cached_property has a lock: threads could not meet
            total = self._summed()
            self.__dict__["_sum"] = total.to(waiting_place(total.nbytes, total.device))
        waiting: Tensor = self.__dict__["_sum"]
        return waiting.to(self.Sigma.device)

    def _summed(self) -> Tensor:
        total = self.Sigma.sum(dim=0, dtype=torch.float64)
        for stack in self.stacks:
            for some in torch.split(stack.rows, max(1, _SUMMED // total.shape[-1])):
                rows = some.to(total)
                total.addmm_(rows.mT, rows)
        return total if self.space is None else self.space.to_all(total)

    def within(self, P: Tensor) -> Tensor:
        """Pᵀ Σ_j P of each class, (k, q, q), for some directions P, (d, q), float64."""
        inside = P if self.space is None else self.space.to(P.dtype, str(P.device)).factor(P)
        out = P.new_zeros(self.n_classes, P.shape[1], P.shape[1])
        for j, Sigma_j in zip(self.dense, self.Sigma, strict=True):
            out[j] = inside.mT @ Sigma_j.to(P.dtype) @ inside
        for stack in self.stacks:
            for some in stack.parts():
                along = some.B.to(P) @ inside
                out[list(some.classes)] = along.mT @ along
        return (out + out.mT) / 2

    def widths(self) -> dict[int, int]:
        """The dimensions of each class: those of the space, or of its factor.

        Classes with a matrix come first, then the others by their ranks.
        """
        s = self.Sigma.shape[-1]
        factors = [(stack.B.shape[1], j) for stack in self.stacks for j in stack.classes]
        others = {j: r for r, j in sorted(factors)}
        return {j: s for j in range(self.n_classes) if j not in others} | others

    def held(self) -> dict[int, Tensor]:
        """Σ_j of each class by its index, or B with Bᵀ B = Σ_j."""
        held = dict(zip(self.dense, self.Sigma, strict=True))
        for stack in self.stacks:
            held |= zip(stack.classes, stack.B, strict=True)
        return held

    def draw(self, n: int) -> Tensor:
        """At most n normal samples with these second moments, on the unit sphere.

        Some classes are left out if there are many. The samples are the same each time.

        Returns
        -------
        Tensor of shape (at most n, d)
        """
        generator = torch.Generator().manual_seed(0)
        chosen, size = self.drawn_classes(n)

        def normal(rank: int) -> Tensor:
            return torch.randn(size, rank, generator=generator, dtype=torch.float64).to(self.Sigma)

        dense, held, s = set(self.dense), self.held(), self.Sigma.shape[-1]
        drawn = [self.Sigma.new_empty(0, s)]
        for j, width in self.widths().items():
            if j not in chosen:
                continue
            along, A = normal(width), held[j]
            if j in dense:
                noise = LEAST_SHARE * float(A.diagonal().mean())
                factor, _ = torch.linalg.cholesky_ex(add_identity(A.clone(), noise))
                drawn.append(along @ factor.mT)
            else:
                drawn.append(along @ A)
        Z = torch.cat(drawn)[:n]
        Z = Z if self.space is None else self.space.directions(Z.mT).mT
        return torch.nn.functional.normalize(Z, dim=1)

    def drawn_classes(self, n: int) -> tuple[range, int]:
        """Which classes about n samples are drawn of, and how many of each."""
        every = math.ceil(self.n_classes / max(1, n // DRAWN_PER_CLASS))
        chosen = range(0, self.n_classes, every)
        return chosen, math.ceil(n / len(chosen))

    def eigenvectors(self, n: int) -> Iterator[tuple[int, Tensor, Tensor, float]]:
        """Of each class its index, at most n leading eigenvalues and -vectors, and its trace.

        Vectors are columns in all d dimensions, in float64; of a class in factors there are no
        more than its factor has rows.
        """
        for j, values, vectors, trace in self._eigenvectors(n):
            yield (
                j,
                values,
                vectors if self.space is None else self.space.directions(vectors),
                trace,
            )

    def _eigenvectors(self, n: int) -> Iterator[tuple[int, Tensor, Tensor, float]]:
        for j, Sigma_j in zip(self.dense, self.Sigma, strict=True):
            yield j, *top_eigenvectors(Sigma_j, n), _sum(Sigma_j.diagonal())
        for stack in self.stacks:
            for j, B_j in zip(stack.classes, stack.B, strict=True):
                B = B_j.to(self.Sigma)
                yield j, *gram_eigenvectors(B, n), _sum(B.square())


def waiting_place(n_bytes: int, device: str | torch.device) -> str | torch.device:
    """Where matrices or factors of a given size wait until a device needs them."""
    return "cpu" if n_bytes > LARGEST_ON_GPU else device


@dataclass(frozen=True, eq=False, kw_only=True)
class UnreadMoments(SecondMoments):
    """Second moments of class moments whose matrices are made anew each time, and not kept.

    That takes about as long as a copy, and saves one. ``Sigma`` has a shape and a dtype only.

    Parameters
    ----------
    moments : ClassMoments
    labels : tuple of g labels
        Of the classes that have a matrix.
    device : str
        Where each is computed.
    wide : ReducedSpace, or None
        The space in float64.
    """

    moments: ClassMoments
    labels: tuple[Label, ...]
    device: str
    wide: ReducedSpace | None

    @classmethod
    def of(cls, moments: ClassMoments, dtype: torch.dtype, device: str) -> UnreadMoments:
        """Those of class moments, in factors and within a reduced space where that is faster."""
        space = ReducedSpace.of(moments, device)
        size = moments.n_features if space is None else space.size
        factors, dense = {}, {}
        for j, label in enumerate(moments):
            F = moments.factor_of(label, int(FACTORED_UP_TO * size), device)
            if F is None:
                dense[j] = label
            else:
                factors[j] = (F if space is None else space.factor(F)).to(dtype)
        return cls(
            tuple(dense),
            torch.empty(len(dense), size, size, dtype=dtype, device="meta"),
            stacked(factors),
            None if space is None else space.to(dtype, device),
            moments.allocate,
            moments=moments,
            labels=tuple(dense.values()),
            device=device,
            wide=space,
        )

    # Whoever needs values has them made.

    def within(self, P: Tensor) -> Tensor:
        """As `SecondMoments.within`."""
        return self.placed().within(P)

    def full(self) -> Tensor:
        """As `SecondMoments.full`."""
        return self.placed().full()

    def draw(self, n: int) -> Tensor:
        """As `SecondMoments.draw`."""
        return self.placed().draw(n)

    def select(self, classes: Iterable[int]) -> SecondMoments:
        """As `SecondMoments.select`."""
        return self.placed().select(classes)

    def held(self) -> dict[int, Tensor]:
        """As `SecondMoments.held`."""
        return self.placed().held()

    @property
    def sum(self) -> Tensor:
        """As `SecondMoments.sum`."""
        return self.placed().sum

    def _eigenvectors(self, n: int) -> Iterator[tuple[int, Tensor, Tensor, float]]:
        return self.placed()._eigenvectors(n)

    def placed(self) -> SecondMoments:
        """The same with its matrices where they are kept: on the device, or waiting for it."""
        return self.on(torch.device(waiting_place(self.Sigma.nbytes, self.device)))

    def on(self, device: torch.device) -> SecondMoments:
        """The same with its matrices on a device, made now."""
        Sigma = on_device(self.allocate, tuple(self.Sigma.shape), self.Sigma.dtype, device)
        for out, label in zip(Sigma, self.labels, strict=True):
            Sigma_j = self.moments.Sigma_of(label, self.device)
            out.copy_(Sigma_j if self.wide is None else self.wide.second_moment(Sigma_j))
        return SecondMoments(self.dense, Sigma, self.stacks, self.space, self.allocate)


def _sum(values: Tensor) -> float:
    return float(values.sum(dtype=torch.float64))
