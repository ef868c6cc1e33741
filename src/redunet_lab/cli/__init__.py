"""The commands of the lab, which reach `redunet` as entry points."""
