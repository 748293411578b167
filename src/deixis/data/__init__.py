"""Official annotation files in, :class:`~deixis.data.sample.Sample` out; one file per data set.

Every module of a data set has the same four names:

``NAME``                 what the command line calls it
``expected(root)``       the files of the official distribution, as :class:`~deixis.data.sample.Expected`
``recognise(root)``      whether this folder is that data set
``splits(root)``         the names of the splits that are there
``load(root, split)``    a :class:`~deixis.data.sample.Dataset`
"""

from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped

__all__ = ["Caption", "Dataset", "Entity", "Expected", "Sample", "Skipped"]
