PRAGMA application_id = 1734440037;
PRAGMA user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE events (
            room INTEGER NOT NULL REFERENCES rooms ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            at REAL NOT NULL,       -- seconds since the room began
            body TEXT NOT NULL CHECK (json_valid(body)), author TEXT,
            UNIQUE (room, seq)
        ) STRICT
        ;
INSERT INTO "events" VALUES(1296148064383994199,1,3.09385299988207407295e-03,'{"type":"settings","seq":1,"version":1,"context":"A meeting about trains","glossary":{"standup":"Standup"},"session":"8c3cac19890ec505"}',NULL);
INSERT INTO "events" VALUES(1296148064383994199,2,3.27087900041078682988e-03,'{"type":"source","seq":2,"id":"u1","rev":1,"ord":1,"lang":"en","text":"good morning","speaker":"Ann","t0":1.0,"t1":2.0}','8c3cac19890ec505');
INSERT INTO "events" VALUES(1296148064383994199,3,1.23112837299959210213e+00,'{"type":"final","seq":3,"id":"u1","rev":1,"ord":1,"lang":"de","text":"[de] good morning","by":"mt","ms":{"queue":1225,"first":1225,"total":1228},"t0":1.0,"t1":2.0}',NULL);
INSERT INTO "events" VALUES(1296148064383994199,4,1.23275494399968,'{"type":"source","seq":4,"id":"u2","rev":1,"ord":2,"lang":"en","text":"the train is late","speaker":"Ann"}','8c3cac19890ec505');
INSERT INTO "events" VALUES(1296148064383994199,5,1.23363419300039822701e+00,'{"type":"final","seq":5,"id":"u2","rev":1,"ord":2,"lang":"de","text":"[de] the train is late","by":"mt","ms":{"queue":1,"first":1,"total":1}}',NULL);
INSERT INTO "events" VALUES(1296148064383994199,6,1.23402818499926070217e+00,'{"type":"edited","seq":6,"id":"u2","rev":1,"ord":2,"lang":"de","text":"Der Zug hat Verspätung","by":"human"}',NULL);
INSERT INTO "events" VALUES(1296148064383994199,7,1.23424931599947740323e+00,'{"type":"source","seq":7,"id":"u3","rev":1,"ord":3,"lang":"en","text":""}','8c3cac19890ec505');
INSERT INTO "events" VALUES(1296148064383994199,8,1.23465503499937767628e+00,'{"type":"final","seq":8,"id":"u3","rev":1,"ord":3,"lang":"de","text":"","by":"mt","ms":{"queue":0,"first":0,"total":0}}',NULL);
INSERT INTO "events" VALUES(1296148064383994199,9,1.23917999600053,'{"type":"retracted","seq":9,"id":"u3","ord":3}',NULL);
CREATE TABLE keys (name TEXT PRIMARY KEY, key BLOB NOT NULL) STRICT;
INSERT INTO "keys" VALUES('signing',X'963B27A3F40189856F016A9384689C2974E21780299824482718820022BED506');
CREATE TABLE rooms (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            epoch TEXT NOT NULL,
            began REAL NOT NULL,    -- seconds since 1970, like the next two
            seen REAL NOT NULL,     -- when a process last had it open
            ended REAL,             -- NULL while it is open
            owner TEXT,             -- the process that writes it; NULL: any may claim it
            settings TEXT,          -- sum of its `settings` events
            before_epoch TEXT,      -- see `History`
            before_seq INTEGER
        ) STRICT
        ;
INSERT INTO "rooms" VALUES(1296148064383994199,'meeting','abdb1b22',1.79574974166012310983e+09,1.79574974299426054959e+09,NULL,NULL,'{"type":"settings","seq":1,"version":1,"context":"A meeting about trains","glossary":{"standup":"Standup"}}',NULL,NULL);
CREATE INDEX rooms_name ON rooms (name);
COMMIT;
