"""The levels of the categorical attributes, in the publishers' order: constants, so that encoding learns nothing."""

ADULT_NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")

ADULT_LEVELS: dict[str, tuple[str, ...] | None] = {
    "age": None,
    "workclass": (
        *("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay"),
        *("Never-worked", "?"),
    ),
    "fnlwgt": None,
    "education": (
        *("Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th"),
        *("7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool"),
    ),
    "education-num": None,
    "marital-status": (
        *("Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent"),
        "Married-AF-spouse",
    ),
    "occupation": (
        *("Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty"),
        *("Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving"),
        *("Priv-house-serv", "Protective-serv", "Armed-Forces", "?"),
    ),
    "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "capital-gain": None,
    "capital-loss": None,
    "hours-per-week": None,
    "native-country": (
        *("United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany"),
        *("Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran", "Honduras"),
        *("Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland", "France"),
        *("Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary", "Guatemala"),
        *("Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador", "Trinadad&Tobago", "Peru", "Hong"),
        *("Holand-Netherlands", "?"),
    ),
}

# The levels that occur in the 286 records; the publisher's description allows more.
BREAST_CANCER_LEVELS: dict[str, tuple[str, ...] | None] = {
    "age": ("20-29", "30-39", "40-49", "50-59", "60-69", "70-79"),
    "menopause": ("lt40", "ge40", "premeno"),
    "tumor-size": (*("0-4", "5-9", "10-14", "15-19", "20-24", "25-29", "30-34", "35-39", "40-44", "45-49", "50-54"),),
    "inv-nodes": ("0-2", "3-5", "6-8", "9-11", "12-14", "15-17", "24-26"),
    "node-caps": ("yes", "no", "?"),
    "deg-malig": ("1", "2", "3"),
    "breast": ("left", "right"),
    "breast-quad": ("left_up", "left_low", "right_up", "right_low", "central", "?"),
    "irradiat": ("yes", "no"),
}
