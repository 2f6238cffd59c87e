"""Column files are read exactly or refused with their line; templates and chunk scores against their definitions."""

from __future__ import annotations

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given, strategies as st

from undercut.errors import DataError, ParameterError
from undercut.io import ConllData, as_conll, byte_ranges, load_conll
from undercut.maps import SPELLING, WINDOW, TemplateFeatures
from undercut.maps.templates import shape
from undercut.measures.chunks import Chunk, chunk_scores, chunks

TEXT = "Confidence NN B-NP\nin IN B-PP\n\nyes UH O\n"

# --- Files --------------------------------------------------------------------------------------------------------


def write(folder, content, name="data.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_columns_and_lengths_are_those_of_the_file(tmp_path):
    data = load_conll(write(tmp_path, TEXT))
    assert data.columns == (["Confidence", "in", "yes"], ["NN", "IN", "UH"], ["B-NP", "B-PP", "O"])
    assert data.lengths.tolist() == [2, 1]
    assert data.sentences(0) == [["Confidence", "in"], ["yes"]]


@pytest.mark.parametrize(
    "text",
    [
        TEXT.rstrip("\n"),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace(" ", "\t"),
        "\n\n" + TEXT + "\n\n\n",
        TEXT.replace("\n\n", "\n \t\n\n"),
        "\ufeff" + TEXT,
        "-DOCSTART- -X- O O\n\n" + TEXT,
        TEXT.replace("\n\n", "\n-DOCSTART- -X- O\n"),
    ],
)
def test_ends_of_lines_blanks_and_documents_change_nothing(tmp_path, text):
    data, plain = load_conll(write(tmp_path, text)), load_conll(write(tmp_path, TEXT, "plain"))
    assert data.columns == plain.columns
    assert data.lengths.tolist() == plain.lengths.tolist()


def test_a_number_sign_is_a_token_and_no_comment(tmp_path):
    assert load_conll(write(tmp_path, "# # O\n")).columns[0] == ["#"]


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_files_are_read(tmp_path, suffix, compress):
    data = load_conll(write(tmp_path, compress(TEXT.encode()), f"data.{suffix}"))
    assert data.lengths.tolist() == [2, 1]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_that_is_cut_is_refused(tmp_path, compress):
    noise = "\n".join(f"{word} X O" for word in np.random.default_rng(0).integers(0, 10**9, 2000))
    path = write(tmp_path, compress(noise.encode())[:-2000])
    with pytest.raises(DataError, match="must be complete and undamaged"):
        load_conll(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a B O\n\nb O\n", r"data\.txt:3: every token must have 3 columns; got 2: 'b O'"),
        (b"a B O\nc d B O\n", r"data\.txt:2: every token must have 3 columns; got 4"),
        (b"a B O\n\xe9t\xe9 B O\n", r"data\.txt:2: must be UTF-8 text; got byte 0xe9"),
        (b"", r"data\.txt: holds no token"),
        (b"\n \n", r"data\.txt: holds no token"),
    ],
)
def test_a_broken_rule_is_refused_with_file_and_line(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        load_conll(write(tmp_path, content))


def test_the_number_of_columns_may_be_demanded(tmp_path):
    with pytest.raises(DataError, match="1: every token must have 2 columns; got 3"):
        load_conll(write(tmp_path, TEXT), n_columns=2)


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_conll(tmp_path / "none")


# --- Templates ----------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b", "Cd", "12"])
TAGS = st.sampled_from(["X", "Y"])
SENTENCES = st.lists(st.lists(st.tuples(WORDS, TAGS), min_size=1, max_size=5), min_size=1, max_size=4)


def as_data(sentences):
    words, tags = zip(*[token for sentence in sentences for token in sentence], strict=True)
    return ConllData((list(words), list(tags)), np.array([len(sentence) for sentence in sentences]))


def features_by_definition(sentence, t):
    """The features of token t by looking around it, with their names."""
    views = {"word": lambda token: token[0], "pos": lambda token: token[1], "lower": lambda token: token[0].lower()}
    views |= {"shape": lambda token: shape(token[0])}
    for size in (1, 2, 3, 4):
        views[f"prefix{size}"] = lambda token, size=size: token[0][:size]
        views[f"suffix{size}"] = lambda token, size=size: token[0][-size:]
    found = set()
    for template in WINDOW + SPELLING:
        values = []
        for part in template.split():
            name, offset = part[:-1].split("[")
            at = t + int(offset)
            values.append(views[name](sentence[at]) if 0 <= at < len(sentence) else None)
        if None not in values:
            found.add(f"{template}={' '.join(values)}")
    return found


@given(train=SENTENCES, test=SENTENCES)
def test_features_are_those_of_the_definition_and_unseen_ones_are_dropped(train, test):
    features = TemplateFeatures(WINDOW + SPELLING)
    X = features.fit_transform(as_data(train))
    names = features.names()
    known = {name for sentence in train for t in range(len(sentence)) for name in features_by_definition(sentence, t)}
    assert sorted(names) == sorted(known)
    assert features.n_features == X.shape[1] == len(names)
    for sentences, matrix in ((train, X), (test, features.transform(as_data(test)))):
        expected = [features_by_definition(sentence, t) & known for sentence in sentences for t in range(len(sentence))]
        assert [{names[j] for j in row.indices} for row in matrix] == expected
        assert (matrix.data == 1.0).all()
        assert matrix.has_sorted_indices


def test_rare_features_are_left_out():
    features = TemplateFeatures(["word[0]"], min_count=2)
    X = features.fit_transform(ConllData((["a", "b", "a"],), np.array([3])))
    assert features.names() == ["word[0]=a"]
    assert X.toarray().ravel().tolist() == [1.0, 0.0, 1.0]


def test_a_template_that_meets_nothing_has_no_columns():
    features = TemplateFeatures(["word[-3]", "word[0]"])
    assert features.fit_transform(ConllData((["a", "b"],), np.array([2]))).shape == (2, 2)


def test_other_columns_may_be_named():
    data = ConllData((["a", "b"], ["X", "Y"], ["1", "2"]), np.array([2]))
    features = TemplateFeatures(["lemma[0] tag2[-1]"], columns=("form", "lemma", "tag2"))
    assert features.fit(data).names() == ["lemma[0] tag2[-1]=Y 1"]


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        (["word"], r"parts like word\[-1\]; got 'word'"),
        (["word[a]"], r"parts like word\[-1\]; got 'word\[a\]'"),
        (["lemma[0]"], "a template looks at word, pos, lower, shape, prefix1, suffix1, ...; got 'lemma'"),
        (["prefix0[0]"], "got 'prefix0'"),
        (["shape2[0]"], "got 'shape2'"),
        ([""], "at least one part"),
        ([], "at least one"),
    ],
)
def test_a_template_that_means_nothing_is_refused(templates, message):
    with pytest.raises(ParameterError, match=message):
        TemplateFeatures(templates)


def test_settings_and_data_must_fit():
    with pytest.raises(ParameterError, match="`min_count` must be at least 1; got 0"):
        TemplateFeatures(min_count=0)
    with pytest.raises(DataError, match="need 2 columns; the data have 1"):
        TemplateFeatures().fit(ConllData((["a"],), np.array([1])))
    with pytest.raises(DataError, match="must be fitted before"):
        TemplateFeatures().transform(ConllData((["a"], ["X"]), np.array([1])))
    many = ConllData(([str(i) for i in range(2000)],), np.array([2000]))
    with pytest.raises(DataError, match="63 bits"):
        TemplateFeatures([" ".join(["word[0]"] * 6)]).fit(many)


# --- Chunks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", []),
        ("B-NP I-NP O", [(0, 1, "NP")]),
        ("B-NP B-NP", [(0, 0, "NP"), (1, 1, "NP")]),
        ("I-NP I-NP", [(0, 1, "NP")]),  # IOB1
        ("I-NP B-NP I-NP", [(0, 0, "NP"), (1, 2, "NP")]),
        ("O I-NP", [(1, 1, "NP")]),
        ("B-NP I-VP", [(0, 0, "NP"), (1, 1, "VP")]),  # I of another type begins a chunk
        ("I-NP I-VP I-VP", [(0, 0, "NP"), (1, 2, "VP")]),
        ("B-NP O I-NP", [(0, 0, "NP"), (2, 2, "NP")]),
        ("I-NP E-NP", [(0, 1, "NP")]),  # IOE2
        ("I-NP E-NP I-NP E-NP", [(0, 1, "NP"), (2, 3, "NP")]),
        ("E-NP E-NP", [(0, 0, "NP"), (1, 1, "NP")]),
        ("B I O B", [(0, 1, ""), (3, 3, "")]),  # tags without a type
        ("B-A-B I-A-B", [(0, 1, "A-B")]),
    ],
)
def test_chunks_are_those_of_the_shared_tasks(tags, expected):
    tags = tags.split()
    assert chunks(tags, [len(tags)]) == [Chunk(*chunk) for chunk in expected]


def test_a_sentence_ends_every_chunk():
    assert chunks(["B-NP", "I-NP", "I-NP"], [1, 2]) == [Chunk(0, 0, "NP"), Chunk(1, 2, "NP")]


def test_a_chunk_is_correct_only_as_a_whole():
    true = ["B-NP", "I-NP", "B-VP", "O", "B-NP", "B-PP"]
    pred = ["B-NP", "B-NP", "B-VP", "O", "I-NP", "I-NP"]
    scores = chunk_scores(true, pred, [6])
    assert scores[""] == (4, 4, 1)
    assert (scores["NP"], scores["VP"], scores["PP"]) == ((2, 3, 0), (1, 1, 1), (1, 0, 0))
    assert (scores[""].precision, scores[""].recall, scores[""].f1) == (0.25, 0.25, 0.25)
    assert (scores["PP"].precision, scores["NP"].f1) == (0.0, 0.0)


def test_f1_is_the_harmonic_mean():
    score = chunk_scores(["B-A", "B-A", "B-A"], ["B-A", "O", "O"], [3])["A"]
    assert score.f1 == pytest.approx(2 * score.precision * score.recall / (score.precision + score.recall))


def test_different_encodings_of_the_same_chunks_agree():
    assert chunk_scores(["B-NP", "I-NP", "B-NP"], ["I-NP", "E-NP", "E-NP"], [3])[""].f1 == 1.0


def test_no_chunks_at_all_score_zero():
    score = chunk_scores(["O"], ["O"], [1])[""]
    assert (score.precision, score.recall, score.f1) == (0.0, 0.0, 0.0)


def test_tags_that_are_none_are_refused():
    with pytest.raises(DataError, match="token 1 has 'S-NP'"):
        chunks(["O", "S-NP"], [2])
    with pytest.raises(DataError, match="sum to the number of tags; got 3 and 2"):
        chunks(["O", "O"], [3])
    with pytest.raises(DataError, match="one predicted tag per true one; got 1 for 2"):
        chunk_scores(["O", "O"], ["O"], [2])


LETTER = st.sampled_from(["O", "B-X", "I-X", "E-X", "B-Y", "I-Y", "E-Y"])


@given(st.lists(LETTER, min_size=1, max_size=12), st.data())
def test_counts_agree_with_a_reading_of_both_taggings_side_by_side(true, data):
    """The rules as conlleval applies them: walk along both taggings and watch chunks begin and end."""
    pred = data.draw(st.lists(LETTER, min_size=len(true), max_size=len(true)))
    assert chunk_scores(true, pred, [len(true)])[""] == side_by_side(true, pred)


def side_by_side(true, pred):
    def begins(before, tag):
        pair = before[0] + tag[0]
        changed = before[2:] != tag[2:]
        return pair in ("BB", "IB", "OB", "OI", "EE", "EI", "OE") or (tag[0] != "O" and changed)

    def ends(before, tag):
        changed = before[2:] != tag[2:]
        return before[0] + tag[0] in ("BB", "BO", "IB", "IO", "EE", "EI", "EO") or (before[0] != "O" and changed)

    n_true = n_pred = n_correct = 0
    running = False
    last = "O", "O"
    for now in [*zip(true, pred, strict=True), ("O", "O")]:
        if running:
            over = [ends(last[k], now[k]) for k in (0, 1)]
            if all(over) and last[0][2:] == last[1][2:]:
                n_correct, running = n_correct + 1, False
            elif over[0] != over[1] or now[0][2:] != now[1][2:]:
                running = False
        opened = [begins(last[k], now[k]) for k in (0, 1)]
        running = running or (all(opened) and now[0][2:] == now[1][2:])
        n_true, n_pred = n_true + opened[0], n_pred + opened[1]
        last = now
    return n_true, n_pred, n_correct


def test_templates_come_back_from_their_arrays():
    data = as_conll([[("the", "DT"), ("dög", "NN")], [("Yes\n no", "UH")]])
    features = TemplateFeatures(["word[0]", "spelling", "pos[-1] word[0]"]).fit(data)
    again = TemplateFeatures(**features.settings())
    again.restore(features.to_arrays())
    assert again.names() == features.names()
    assert (again.transform(data) != features.transform(data)).nnz == 0
    with pytest.raises(ValueError, match="do not fit the templates"):
        TemplateFeatures(["word[0]"]).restore(features.to_arrays())


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "at least one sentence"),
        ([["a"], []], "sentence 1 is"),
        (["a b"], "a sentence must be a list"),
        ([[("a", "b"), ("c",)]], "token 1 of sentence 0"),
        ([["a", 3.0]], "token 1 of sentence 0 is 3.0"),
    ],
)
def test_sentences_that_are_none_are_refused(X, message):
    with pytest.raises(DataError, match=message):
        as_conll(X)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
def test_ranges_of_a_file_give_every_sentence_once(tmp_path, n_parts):
    sentences = [[f"w{s}.{t} N" for t in range(1 + s % 4)] for s in range(20)]
    path = tmp_path / "words.txt"
    path.write_text("\n\n".join("\n".join(sentence) for sentence in sentences) + "\n")
    whole = load_conll(path)
    parts = [load_conll(path, byte_range=each) for each in byte_ranges(path, n_parts)]
    assert [word for part in parts if part.columns for word in part.columns[0]] == whole.columns[0]
    assert [int(n) for part in parts for n in part.lengths] == whole.lengths.tolist()


def test_an_error_in_a_range_names_the_line_of_the_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a N\n\nb N\n\nc\nd N\n")
    with pytest.raises(DataError, match=r"words\.txt:6: every token must have 1 columns"):
        load_conll(path, byte_range=(5, path.stat().st_size))
