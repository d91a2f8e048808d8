CREATE TABLE IF NOT EXISTS lifecycle_deploys (
    seq     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      TEXT COLLATE "C" NOT NULL UNIQUE,
    app     TEXT COLLATE "C" NOT NULL,
    version BIGINT  NOT NULL, -- for compare-and-set
    is_over BOOLEAN NOT NULL,
    record  JSON    NOT NULL
);
CREATE INDEX IF NOT EXISTS lifecycle_deploys_app ON lifecycle_deploys (app, seq);
CREATE INDEX IF NOT EXISTS lifecycle_deploys_open ON lifecycle_deploys (seq) WHERE NOT is_over;

-- One row per app that was deployed: which deploy of it goes on.
CREATE TABLE IF NOT EXISTS lifecycle_turns (
    app     TEXT COLLATE "C" PRIMARY KEY,
    version BIGINT NOT NULL, -- for compare-and-set
    turn    JSON   NOT NULL
);
