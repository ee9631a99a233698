// What Spear costs, against the physical limit and against what one would use instead. Ratios travel between machines,
// nanoseconds do not.
import { writeFileSync } from 'node:fs';
import { FlagError, parseFlags, usage } from './flags.ts';
import { isBuildOld } from './guests/built.ts';
import type { Row } from './measure/row.ts';
import { environment } from './report/environment.ts';
import { htmlReport } from './report/html.ts';
import { environmentLines, summary, topicTable } from './report/table.ts';
import { runTopic, TopicFailed } from './run-topic.ts';
import { topics } from './topics/all.ts';

/** A topic that takes longer hangs. */
const TOPIC_TIMEOUT_MS = { quick: 180_000, full: 600_000 };

async function main(): Promise<number> {
  const flags = parseFlags(process.argv.slice(2));
  if (flags.help) {
    console.log(usage);
    return 0;
  }
  const machine = environment(flags.quick ? 'quick' : 'full');
  console.log(environmentLines(machine));
  if (isBuildOld()) console.log('dist/ is older than src/: run npm run build, or some figures measure older code');
  const started = performance.now();
  const rows: Row[] = [];
  let failed = 0;
  for (const { name, title } of topics) {
    if (!flags.topics.includes(name)) continue;
    try {
      const found = await runTopic(name, flags.quick, TOPIC_TIMEOUT_MS[flags.quick ? 'quick' : 'full']);
      rows.push(...found);
      console.log(topicTable(name, title, found));
    } catch (error) {
      if (!(error instanceof TopicFailed)) throw error;
      failed++;
      console.error(`\n${error.message}`);
    }
  }
  console.log(summary(rows, (performance.now() - started) / 1000));
  if (flags.json !== null) writeFileSync(flags.json, `${JSON.stringify(rows, null, 2)}\n`);
  if (flags.html !== null) writeFileSync(flags.html, htmlReport(machine, topics, rows));
  return failed > 0 ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof FlagError)) throw error;
  console.error(`bench: ${error.message}`);
  process.exitCode = 2;
}
