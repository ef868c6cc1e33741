"""scikit-learn's metadata routing, and how estimators look in a notebook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from redunet import ReduNetClassifier
from redunet.estimators import LinearDiscriminant, Ridge
from redunet.features import Flatten
from redunet_lab.closed_forms import CLOSED_FORMS

pytestmark = pytest.mark.usefixtures("one_thread")
Small = tuple[NDArray[Any], NDArray[Any]]


def test_every_estimator_says_what_it_can_be_sent() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        for kind in CLOSED_FORMS.values():
            routing = kind().get_metadata_routing()
            assert list(routing.partial_fit.requests) == ["classes"]
            assert list(routing.score.requests) == ["sample_weight"]
            assert not routing.fit.requests
        routing = ReduNetClassifier().get_metadata_routing()
        assert list(routing.partial_fit.requests) == ["classes", "unlabelled"]
        assert list(routing.predict.requests) == ["reject"]


def test_a_pipeline_passes_on_what_to_reject(small: Small) -> None:
    X, y = small
    with sklearn.config_context(enable_metadata_routing=True):
        model = ReduNetClassifier(n_layers=1).set_predict_request(reject=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
        given = pipeline.predict(X, reject=0.3)
        alone = model.predict(pipeline[0].transform(X), reject=0.3)
        assert given.tolist() == alone.tolist()
        assert None in given.tolist()
        unasked = make_pipeline(StandardScaler(), ReduNetClassifier(n_layers=1)).fit(X, y)
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="reject"):
            unasked.predict(X, reject=0.3)


def test_a_search_weights_the_scores_of_samples(small: Small) -> None:
    X, y = small
    weights = np.where(y == 0, 10.0, 1.0)
    folds = StratifiedKFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"ridge": [0.01, 30.0]}, cv=folds)
        search.fit(X, y, sample_weight=weights)
        found = cross_validate(model, X, y, cv=folds, params={"sample_weight": weights})
    wanted = [
        [
            Ridge(ridge=ridge).fit(X[a], y[a]).score(X[b], y[b], sample_weight=weights[b])
            for a, b in folds.split(X, y)
        ]
        for ridge in (0.01, 30.0)
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], np.mean(wanted, axis=1))
    np.testing.assert_allclose(found["test_score"], wanted[0])


def test_a_notebook_shows_parameters_and_whether_something_is_learnt(small: Small) -> None:
    new = ReduNetClassifier(n_layers=7)._repr_html_()
    assert "<span>Not fitted</span>" in new
    assert "n_layers" in new
    assert "7" in new
    fitted = ReduNetClassifier(n_layers=7, features=Flatten((12,))).fit(*small)._repr_html_()
    assert "<span>Fitted</span>" in fitted
    assert "Flatten" in fitted
    both = make_pipeline(StandardScaler(), LinearDiscriminant())._repr_html_()
    assert both.count("LinearDiscriminant") > 1


def test_showing_a_model_computes_nothing(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ReduNetClassifier().fit(*small)

    def refused(*_: Any) -> None:
        raise AssertionError("the network was asked for")

    monkeypatch.setattr(ReduNetClassifier, "_use", refused)
    for shown in (model._repr_html_(), make_pipeline(model)._repr_html_()):
        assert "network_" not in shown  # newer versions of scikit-learn have attributes computed
    assert repr(model) == "ReduNetClassifier()"
