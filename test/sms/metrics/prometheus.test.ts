import { expect, it } from 'vitest';
import { Metrics } from '../../../src/sms/metrics/prometheus.ts';

it('writes counters, gauges and histograms as text [sms.http.metrics]', () => {
  const metrics = new Metrics();
  const counter = metrics.counter('requests_total', 'Requests.');
  metrics.counter('idle_total', 'Never counted.');
  metrics.gauge('level', 'Level.', () => 1.5);
  const histogram = metrics.histogram('seconds', 'Time.', [0.1, 1]);
  counter.add({ code: '200' });
  counter.add({ code: '200' }, 2);
  counter.add({ code: 'a"b\\c\nd' });
  for (const value of [0.05, 0.1, 0.5, 3]) histogram.observe(value);
  expect(metrics.text()).toBe(
    [
      '# HELP requests_total Requests.',
      '# TYPE requests_total counter',
      'requests_total{code="200"} 3',
      'requests_total{code="a\\"b\\\\c\\nd"} 1',
      '# HELP idle_total Never counted.',
      '# TYPE idle_total counter',
      'idle_total 0',
      '# HELP level Level.',
      '# TYPE level gauge',
      'level 1.5',
      '# HELP seconds Time.',
      '# TYPE seconds histogram',
      'seconds_bucket{le="0.1"} 2',
      'seconds_bucket{le="1"} 3',
      'seconds_bucket{le="+Inf"} 4',
      'seconds_sum 3.65',
      'seconds_count 4',
      '',
    ].join('\n'),
  );
});
