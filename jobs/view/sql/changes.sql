SELECT coalesce(a.item, b.item) AS item, coalesce(a.model, b.model) AS model, a.outcome AS before, b.outcome AS after,
  left(a.output, 300) AS output_before, left(b.output, 300) AS output_after,
  CASE WHEN a.item IS NULL THEN 'second' WHEN b.item IS NULL THEN 'first'
    WHEN a.outcome <> b.outcome AND b.outcome = 'right' THEN 'better'
    WHEN a.outcome <> b.outcome AND a.outcome = 'right' THEN 'worse'
    WHEN a.outcome <> b.outcome THEN 'other'
    WHEN a.output IS DISTINCT FROM b.output THEN 'text' ELSE 'same' END AS change
FROM (SELECT * FROM answers WHERE out = ?) a
FULL JOIN (SELECT * FROM answers WHERE out = ?) b ON a.item = b.item AND a.model = b.model
