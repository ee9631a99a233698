// What Spear does when everybody means it harm: guests, servers, the network, the disk, the clock.
import { writeFileSync } from 'node:fs';
import { FlagError, parseFlags, usage } from './flags.ts';
import { runTopic } from './run-topic.ts';
import { heading, rowsOf } from './table.ts';
import { topics } from './topics/all.ts';

const MINUTE_MS = 60_000;

async function main(): Promise<number> {
  const flags = parseFlags(process.argv.slice(2));
  if (flags.help) {
    console.log(usage);
    return 0;
  }
  console.log(`seed ${flags.seed}; repeat this run with: npm run torture -- --seed ${flags.seed}\n`);
  const rows: string[] = [];
  let failed = false;
  for (const { name, title, goal } of topics) {
    if (!flags.topics.includes(name)) continue;
    console.log(`${name}: ${title}; goal: ${goal}`);
    const started = performance.now();
    const end = await runTopic({
      name,
      short: flags.short,
      seed: flags.seed,
      allowedMs: flags.minutes * MINUTE_MS,
      onProgress: (text) => process.stderr.write(text),
    });
    rows.push(...rowsOf(name, end));
    for (const { what, failures } of end.findings) {
      for (const failure of failures) console.log(`  ${what}: ${failure}`);
      if (failures.length > 0) failed = true;
    }
    console.log(`${name}: ${((performance.now() - started) / 1000).toFixed(0)} s\n`);
  }
  const table = [...heading, ...rows].join('\n');
  console.log(table);
  if (flags.markdown !== null) writeFileSync(flags.markdown, `${table}\n`);
  return failed ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof FlagError)) throw error;
  console.error(`torture: ${error.message}`);
  process.exitCode = 2;
}
