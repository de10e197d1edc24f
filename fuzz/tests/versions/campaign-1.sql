BEGIN TRANSACTION;
CREATE TABLE buckets (
    key text primary key, number integer not null, examination text not null, file text not null
) without rowid;
INSERT INTO "buckets" VALUES('optimise/PADTO',3,'{"number": 3, "bucket": "optimise/PADTO", "stage": "optimise", "cause": "PADTO", "detail": "slot 0: element 3 is 4 instead of 5", "case": null, "nodes": 4, "opts": 1, "lines": ["fault   it"], "seconds": 1.5, "problem": ""}','');
CREATE TABLE chunks (
    first integer primary key, stop integer not null, judged integer not null, seconds real not null
);
INSERT INTO "chunks" VALUES(0,20,6,0.75);
CREATE TABLE config (key text primary key, value text not null) without rowid;
INSERT INTO "config" VALUES('code','"0.1-abc"');
INSERT INTO "config" VALUES('device','"CPU"');
INSERT INTO "config" VALUES('policy','"even"');
INSERT INTO "config" VALUES('seed','7');
CREATE TABLE coverage (
    epoch integer not null, kind text not null, name text not null, count integer not null,
    primary key (epoch, kind, name)
) without rowid;
INSERT INTO "coverage" VALUES(0,'pair','UPCAST LOCAL',1);
INSERT INTO "coverage" VALUES(0,'rule','int-add-zero',2);
CREATE TABLE findings (
    number integer primary key, signature text not null,
    verdict text not null, guide text, bucket text
);
INSERT INTO "findings" VALUES(3,'OPTIMISED VALUE','{"pair": "OPTIMISED", "symptom": "VALUE", "detail": "slot 0: element 3 is 4 instead of 5", "trial": 1, "judged": 4}','{"opts": {"UPCAST": 2.0}}','optimise/PADTO');
INSERT INTO "findings" VALUES(9,'DEVICE RED_ZONE','{"pair": "DEVICE", "symptom": "RED_ZONE", "detail": "the byte 1 after slot 0 changed", "trial": -1, "judged": 2}','{"opts": {"UPCAST": 2.0}}',NULL);
CREATE TABLE guides (epoch integer primary key, guide text not null);
CREATE INDEX findings_of_a_signature on findings (signature, number);
COMMIT;
PRAGMA application_id = 1953659238;
PRAGMA user_version = 1;
