"""The code of a program that MLflow keeps: it stands in the model's folder and runs when that is
loaded.

It stands apart from the package there, so its import names it.
"""

from mlflow.models import set_model

from folkmoot.pipelines.tracking.models import ProgramModel

set_model(ProgramModel())
