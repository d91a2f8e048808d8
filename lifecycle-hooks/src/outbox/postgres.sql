CREATE TABLE IF NOT EXISTS lifecycle_schema (version BIGINT NOT NULL);
INSERT INTO lifecycle_schema (version) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM lifecycle_schema);

-- One row per app that has had events: how its oldest event stands.
CREATE TABLE IF NOT EXISTS lifecycle_apps (
    app      TEXT COLLATE "C" PRIMARY KEY,
    state    TEXT   NOT NULL CHECK (state IN ('idle', 'waiting', 'held', 'parked')),
    untold   BIGINT NOT NULL, -- how many events it has
    due      TIMESTAMPTZ,     -- when it may be claimed; if held, when the lease ends; else NULL
    fence    BIGINT NOT NULL, -- how often it was claimed
    attempts BIGINT NOT NULL, -- of the oldest event
    error    JSON             -- of its last attempt
);
CREATE INDEX IF NOT EXISTS lifecycle_apps_due ON lifecycle_apps (due) WHERE due IS NOT NULL;

CREATE TABLE IF NOT EXISTS lifecycle_events (
    seq      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app      TEXT COLLATE "C" NOT NULL,
    id       TEXT COLLATE "C" NOT NULL UNIQUE,
    event    JSON NOT NULL,
    appended TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    told     TIMESTAMPTZ      -- NULL until then
);
CREATE INDEX IF NOT EXISTS lifecycle_events_app ON lifecycle_events (app, seq) WHERE told IS NULL;
CREATE INDEX IF NOT EXISTS lifecycle_events_told ON lifecycle_events (told) WHERE told IS NOT NULL;
