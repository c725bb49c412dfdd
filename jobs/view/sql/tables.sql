CREATE TABLE parts (part INTEGER, out UTINYINT, path VARCHAR, signature VARCHAR);
CREATE TABLE answers (
  item UBIGINT, part INTEGER, out UTINYINT, benchmark VARCHAR, task VARCHAR, setting VARCHAR, variant VARCHAR,
  sample_id VARCHAR, model VARCHAR, category VARCHAR, outcome VARCHAR, correct BOOLEAN, judge VARCHAR, answer VARCHAR,
  output VARCHAR, latency_s DOUBLE
);
CREATE TABLE judgements (out UTINYINT, path VARCHAR, judge VARCHAR, prompt_sha256 VARCHAR, reply VARCHAR);
CREATE TABLE questions (benchmark VARCHAR, sample_id VARCHAR, shard VARCHAR, text VARCHAR);
