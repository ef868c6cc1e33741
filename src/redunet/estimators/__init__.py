"""scikit-learn estimators over class moments."""
