"""The network of all circular shifts of the samples: moments, layers and read-outs.

A sample is C channels over a grid of n positions, in one or more dimensions. Learning all of its
n circular shifts makes second moments block-circulant: they are known by the correlations of
channels, C² n integers in place of (C n)², and the Fourier transform over the positions makes them
block-diagonal, a C x C matrix for each frequency. So does it with E and all C_j: a layer is C x C
problems, and commutes with every shift.
"""
