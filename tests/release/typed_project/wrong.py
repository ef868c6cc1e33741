"""What a type checker must refuse; the number of each error is that of the line marked."""

from redunet import ReduNetClassifier, from_recipe, no_such_name  # wrong
from redunet.estimators import load

model = ReduNetClassifier(n_layers="many")  # wrong
model.save(3)  # wrong
number: int = load("model.safetensors").predict_proba([[1.0]])  # wrong
model.forget(3)  # wrong
from_recipe(7)  # wrong
