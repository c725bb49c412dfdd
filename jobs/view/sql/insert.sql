INSERT INTO answers
SELECT hash(p.benchmark, p.sample_id, p.task, p.setting, coalesce(p.variant, '')), p.part, ?, p.benchmark, p.task,
  p.setting, coalesce(p.variant, ''), p.sample_id, p.model, coalesce(s.category, ''),
  CASE WHEN p.status <> 'ok' THEN p.status WHEN s.request_id IS NULL THEN 'none' WHEN s.answer IS NULL THEN 'unread'
    WHEN s.correct >= 0.5 THEN 'right' WHEN s.correct IS NOT NULL THEN 'wrong' ELSE 'none' END,
  CASE WHEN p.status = 'ok' THEN s.correct >= 0.5 END,
  CASE WHEN s.verdict_state = 'ok' THEN CASE WHEN s.accepted >= 0.5 THEN 'accepted' ELSE 'rejected' END
    WHEN s.verdict_state = 'absent' THEN '' ELSE coalesce(s.verdict_state, '') END,
  left(s.answer, 200), coalesce(p.output, p.error), p.latency_s
FROM predictions p LEFT JOIN scores s ON s.request_id = p.request_id AND s.part = p.part
