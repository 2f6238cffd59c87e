"""Tables on the command line: train, predict and evaluate by the names of columns."""

import io
import json
from typing import NamedTuple

import numpy as np
import onnxruntime
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from undercut import LinearClassifier, load_model, save_model


class Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(undercut):
    return lambda *arguments: Done(*undercut(*arguments))


@pytest.fixture
def cars(tmp_path):
    """A table with numbers, categories and names of classes; the target follows from two columns."""
    rng = np.random.default_rng(0)
    color, age = rng.choice(["red", "green", "blue"], 120), rng.uniform(0.0, 10.0, 120).round(2)
    sold = np.where(age - 4.0 * (color == "red") > 3.0, "no", "yes")
    frame = pl.DataFrame({"id": range(120), "age": age, "color": color, "day": np.arange(120) % 12, "sold": sold})
    frame.write_csv(tmp_path / "cars.csv")
    frame.write_csv(tmp_path / "cars.tsv", separator="\t")
    frame.write_parquet(tmp_path / "cars.parquet")
    return frame


TRAIN = ["--target", "sold", "--ignore", "id,day", "--lambda", "1e-3"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_a_table_is_learned_predicted_and_evaluated_by_the_names_of_its_columns(run, tmp_path, cars, ending):
    file, model = tmp_path / f"cars.{ending}", tmp_path / "m.uc"
    assert run("train", file, *TRAIN, "-o", model).exit_code == 0
    shuffled = tmp_path / f"new.{ending}"
    new = cars.select("color", "age")
    new.write_parquet(shuffled) if ending == "parquet" else new.write_csv(
        shuffled, separator="\t" if ending == "tsv" else ","
    )
    predicted = run("predict", model, shuffled)
    assert predicted.exit_code == 0
    assert set(predicted.stdout.split()) == {"yes", "no"}
    assert np.mean(np.array(predicted.stdout.split()) == cars["sold"].to_numpy()) > 0.9
    report = json.loads(run("evaluate", model, file, "--json").stdout)
    assert report["accuracy"] > 0.9


def test_the_model_file_keeps_names_categories_and_target(run, tmp_path, cars):
    run("train", tmp_path / "cars.csv", *TRAIN, "-o", tmp_path / "m.uc")
    table = load_model(tmp_path / "m.uc").table_
    assert table.feature_names() == ["age", "color=blue", "color=green", "color=red"]
    assert (table.target, table.ignored) == ("sold", ("id", "day"))
    shown = json.loads(run("info", tmp_path / "m.uc", "--json").stdout)
    assert {"age", "color=red"} <= set(shown["largest_coefficients"])


def test_what_does_not_fit_is_told_in_options(run, tmp_path, cars):
    file, model = tmp_path / "cars.csv", tmp_path / "m.uc"
    assert_fails(run("train", file, "-o", model), 2, "--target must name the column", "id, age, color, day, sold")
    assert_fails(run("train", file, "--target", "solt", "-o", model), 2, "--target must name", "did you mean sold?")
    assert_fails(run("train", file, *TRAIN, "--n-features", "9", "-o", model), 2, "--n-features is for SVMlight files")
    run("train", file, *TRAIN, "-o", model)
    cars.drop("age").write_csv(tmp_path / "new.csv")
    assert_fails(run("predict", model, tmp_path / "new.csv"), 1, "must have the column 'age'")
    (tmp_path / "a.svm").write_text("1 1:1\n-1 2:1\n")
    assert_fails(run("predict", model, tmp_path / "a.svm"), 1, "trained on a table with the columns age, color")
    assert_fails(run("train", tmp_path / "a.svm", "--impute", "-o", model), 2, "--impute is for CSV, TSV and Parquet")
    run("train", tmp_path / "a.svm", "-o", model)
    assert_fails(run("predict", model, file), 1, "features without names")


def assert_fails(done, code, *texts):
    assert done.exit_code == code, done.stderr
    for text in texts:
        assert text in done.stderr.replace("\n", " ")


def test_missing_values_need_impute(run, tmp_path, cars):
    file, model = tmp_path / "holes.csv", tmp_path / "m.uc"
    cars.with_columns(pl.when(pl.col("id") != 7).then(pl.col("age"))).write_csv(file)
    assert_fails(run("train", file, *TRAIN, "-o", model), 1, "row 8, column 'age' has no value", "--impute")
    assert run("train", file, *TRAIN, "--impute", "-o", model).exit_code == 0
    assert run("evaluate", model, file).exit_code == 0


def test_new_categories_and_columns_are_noted_and_refused_by_strict(run, tmp_path, cars):
    model, new = tmp_path / "m.uc", tmp_path / "new.csv"
    run("train", tmp_path / "cars.csv", *TRAIN, "-o", model)
    cars.with_columns(color=pl.lit("mauve"), size=pl.lit(1)).write_csv(new)
    done = run("predict", model, new)
    assert done.exit_code == 0
    assert "has 1 category never seen in training, such as 'mauve'" in done.stderr
    assert "ignored columns never seen in training: size" in done.stderr
    assert_fails(run("predict", model, new, "--strict"), 1, "never seen in training")


def test_groups_are_the_queries_of_a_ranking(run, tmp_path, cars):
    model, file = tmp_path / "m.uc", tmp_path / "ranks.csv"
    cars.with_columns(sold=pl.col("age").round()).write_csv(file)
    options = ["--loss", "pairwise", "--target", "sold", "--ignore", "id"]
    assert_fails(run("train", file, *options, "-o", model), 1, "--group")
    assert run("train", file, *options, "--group", "day", "-o", model).exit_code == 0
    assert json.loads(run("evaluate", model, file, "--json").stdout)["ndcg@10"] > 0.95


def test_other_models_learn_from_tables_too(run, tmp_path, cars):
    file, model = tmp_path / "cars.csv", tmp_path / "m.uc"
    numeric = ["--target", "age", "--ignore", "id,day,sold"]
    assert run("train", file, "--loss", "absolute", *numeric, "-o", model).exit_code == 0
    assert "R2" in run("evaluate", model, file).stdout
    assert run("train", file, "--nu", "0.1", "--ignore", "id,day,sold,color", "-o", model).exit_code == 0
    assert run("evaluate", model, file).exit_code == 0
    assert run("train", file, *TRAIN[:-2], "--kernel", "rbf", "-o", model).exit_code == 0
    options = [*TRAIN[:-2], "--unlabelled", file, "--max-steps", "50"]
    assert run("train", file, *options, "-o", model).exit_code in (0, 3)


@pytest.mark.filterwarnings("ignore::undercut.estimators.cross_validated.SelectionWarning")
def test_a_path_of_lambdas_takes_a_table(run, tmp_path, cars):
    options = ["--target", "sold", "--ignore", "id,day", "--lambdas", "1e-1,1e-3", "--cv", "3"]
    done = run("path", tmp_path / "cars.csv", *options, "-o", tmp_path / "m.uc")
    assert done.exit_code == 0, done.stderr
    assert json.loads(run("evaluate", tmp_path / "m.uc", tmp_path / "cars.csv", "--json").stdout)["accuracy"] > 0.9


def test_a_model_of_a_table_may_be_tested_and_stopped_early_on_another(run, tmp_path, cars):
    file = tmp_path / "cars.csv"
    cars.select(reversed(cars.columns)).write_parquet(tmp_path / "other.parquet")
    others = ["--test", tmp_path / "other.parquet", "--valid", tmp_path / "other.parquet"]
    done = run("train", file, *TRAIN, *others, "--json", "-o", tmp_path / "m.uc")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["test"]["accuracy"] > 0.9


def test_a_table_can_be_streamed_and_goes_on_from_its_model(run, tmp_path, cars):
    file, model = tmp_path / "cars.csv", tmp_path / "m.uc"
    options = ["--target", "sold", "--ignore", "id,day", "--online", "--chunk-rows", "50"]
    assert run("train", file, *options, "--passes", "3", "-o", model).exit_code == 0
    cars.head(30).select(pl.all().reverse()).write_csv(tmp_path / "more.csv")
    assert run("train", tmp_path / "more.csv", *options, "--start", model, "-o", model).exit_code == 0
    saved = load_model(model)
    assert (saved.n_samples_seen_, saved.table_.feature_names()[0]) == (390, "age")


def test_a_start_brings_its_columns(run, tmp_path, cars):
    file, model = tmp_path / "cars.csv", tmp_path / "m.uc"
    run("train", file, *TRAIN, "-o", model)
    first = load_model(model)
    cars.filter(pl.col("color") != "green").select(reversed(cars.columns)).write_csv(tmp_path / "more.csv")
    assert run("train", tmp_path / "more.csv", *TRAIN, "--start", model, "-o", model).exit_code == 0
    assert load_model(model).table_ == first.table_
    (tmp_path / "a.svm").write_text("1 4:1\n-1 2:1\n")
    assert_fails(run("train", tmp_path / "a.svm", "--start", model, "-o", model), 1, "trained on a table")


# ---------------------------------------------------------------------------------- models that Python wrote, and ONNX


def test_a_model_of_a_data_frame_predicts_a_table(run, tmp_path, cars):
    X = cars.select("age", "day").to_pandas()
    model = LinearClassifier().fit(X, cars["sold"].to_numpy())
    save_model(model, tmp_path / "m.uc")
    done = run("predict", tmp_path / "m.uc", tmp_path / "cars.csv")
    assert done.stdout.split() == model.predict(X).tolist()


def test_a_pipeline_predicts_a_table_and_shows_its_steps(run, tmp_path, cars):
    steps = ColumnTransformer([("age", StandardScaler(), ["age"]), ("color", OneHotEncoder(), ["color"])])
    model = make_pipeline(steps, LinearClassifier()).fit(cars, cars["sold"].to_numpy())
    save_model(model, tmp_path / "m.uc")
    done = run("predict", tmp_path / "m.uc", tmp_path / "cars.csv")
    assert done.stdout.split() == model.predict(cars).tolist()
    assert "ColumnTransformer, LinearClassifier" in run("info", tmp_path / "m.uc").stdout
    assert_fails(run("evaluate", tmp_path / "m.uc", tmp_path / "cars.csv"), 1, "the column of the targets is unknown")
    save_model(make_pipeline(CountVectorizer(), LinearClassifier()).fit(["ham", "spam"], [0, 1]), tmp_path / "m.uc")
    assert_fails(run("predict", tmp_path / "m.uc", tmp_path / "cars.csv"), 1, "takes no rows of numbers")


def test_evaluate_gives_the_score_and_the_certificate_of_a_pipeline(run, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), LinearClassifier()).fit(X, y)
    save_model(model, tmp_path / "m.uc")
    dump_svmlight_file(X, y, str(tmp_path / "iris.svm"), zero_based=False)
    told = json.loads(run("evaluate", tmp_path / "m.uc", tmp_path / "iris.svm", "--json").stdout)
    assert told["accuracy"] == model.score(X, y)
    predicted = run("predict", tmp_path / "m.uc", tmp_path / "iris.svm").stdout.split()
    assert predicted == list(map(str, model.predict(X).tolist()))
    assert told["training_lower_bound"] == model[-1].lower_bound_
    refused = run("evaluate", tmp_path / "m.uc", tmp_path / "iris.svm", "--memory", "1GB")
    assert_fails(refused, 2, "and not for a Pipeline")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_export_writes_a_graph_with_the_scores_of_the_model(run, tmp_path, dtype):
    X, y = load_iris(return_X_y=True)
    model = LinearClassifier().fit(X, y)
    save_model(model, tmp_path / "m.uc")
    assert run("export", tmp_path / "m.uc", tmp_path / "m.onnx", "--dtype", dtype).exit_code == 0
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"X": X.astype(dtype)})
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-3 if dtype == "float32" else 1e-10)
    assert_fails(run("export", tmp_path / "m.uc", tmp_path / "m.onnx", "--dtype", "int8"), 2, "float32 or float64")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_may_come_from_standard_input(run, tmp_path, monkeypatch, cars, ending):
    content, model = (tmp_path / f"cars.{ending}").read_bytes(), tmp_path / "m.uc"

    def piped(*arguments):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        return run(*arguments)

    assert piped("train", "-", *TRAIN, "-o", model).exit_code == 0
    predicted = piped("predict", model, "-")
    assert predicted.stdout == run("predict", model, tmp_path / "cars.csv").stdout
