"""The code of a model in MLflow: it is copied into the model's folder and runs when the model is
loaded. There it is outside the package, so it imports the package by name.
"""

from mlflow.models import set_model

from folkmoot.pipelines.tracking.models import ProgramModel

set_model(ProgramModel())
