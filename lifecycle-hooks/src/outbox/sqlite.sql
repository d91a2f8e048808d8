CREATE TABLE IF NOT EXISTS lifecycle_schema (version INTEGER NOT NULL);
INSERT INTO lifecycle_schema (version) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM lifecycle_schema);

-- One row per app that has had events: how its oldest event stands.
CREATE TABLE IF NOT EXISTS lifecycle_apps (
    app      TEXT    NOT NULL PRIMARY KEY,
    state    TEXT    NOT NULL CHECK (state IN ('idle', 'waiting', 'held', 'parked')),
    untold   INTEGER NOT NULL, -- how many events it has
    due      INTEGER,          -- when it may be claimed (ms since 1970); if held, when the lease ends; else NULL
    fence    INTEGER NOT NULL, -- how often it was claimed
    attempts INTEGER NOT NULL, -- of the oldest event
    error    TEXT              -- of its last attempt
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lifecycle_apps_due ON lifecycle_apps (due) WHERE due IS NOT NULL;

CREATE TABLE IF NOT EXISTS lifecycle_events (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    app      TEXT    NOT NULL,
    id       TEXT    NOT NULL UNIQUE,
    event    TEXT    NOT NULL,
    appended INTEGER NOT NULL, -- ms since 1970
    told     INTEGER           -- likewise; NULL until then
);
CREATE INDEX IF NOT EXISTS lifecycle_events_app ON lifecycle_events (app, seq) WHERE told IS NULL;
CREATE INDEX IF NOT EXISTS lifecycle_events_told ON lifecycle_events (told) WHERE told IS NOT NULL;
