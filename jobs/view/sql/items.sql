CREATE OR REPLACE TABLE items AS
SELECT item, any_value(benchmark) AS benchmark, any_value(task) AS task, any_value(setting) AS setting,
  any_value(variant) AS variant, any_value(sample_id) AS sample_id, max(category) AS category, count(*) AS answers,
  count(*) FILTER (correct) AS correct, count(*) FILTER (NOT correct) AS wrong, max(latency_s) AS latency_s,
  2 * least(count(*) FILTER (correct), count(*) FILTER (NOT correct)) / greatest(count(correct), 1) AS disagreement
FROM answers GROUP BY item ORDER BY benchmark, task, setting, sample_id, variant
