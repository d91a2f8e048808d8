CREATE TABLE IF NOT EXISTS lifecycle_deploys (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    id      TEXT    NOT NULL UNIQUE,
    app     TEXT    NOT NULL,
    version INTEGER NOT NULL, -- for compare-and-set
    is_over INTEGER NOT NULL,
    record  TEXT    NOT NULL
);
CREATE INDEX IF NOT EXISTS lifecycle_deploys_app ON lifecycle_deploys (app, seq);
CREATE INDEX IF NOT EXISTS lifecycle_deploys_open ON lifecycle_deploys (seq) WHERE NOT is_over;

-- One row per app that was deployed: which deploy of it goes on.
CREATE TABLE IF NOT EXISTS lifecycle_turns (
    app     TEXT    NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL, -- for compare-and-set
    turn    TEXT    NOT NULL
) WITHOUT ROWID;
