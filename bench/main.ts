// What a hostcall costs. Ratios travel between machines, nanoseconds do not.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { exceeded } from './ceilings.ts';
import { BARE } from './loop-module.ts';
import { measureHostcalls } from './measure-hostcalls.ts';
import { measureSends } from './measure-sends.ts';
import { measureStartUp } from './measure-start-up.ts';
import { printReport, type Report } from './report.ts';

const usage = `Usage: npm run bench -- [options]

  --json FILE   also writes the numbers to FILE
  --check       exits with 1 if a ratio is above its ceiling (bench/ceilings.ts)
  --quick       a short run: shows that everything works, its numbers mean little
  --help        this text`;

const efforts = {
  thorough: { callsPerSample: 10_000, timeMs: 400, sends: 5_000, rounds: 21 },
  quick: { callsPerSample: 100, timeMs: 5, sends: 50, rounds: 1 },
} as const;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      json: { type: 'string' },
      check: { type: 'boolean' },
      quick: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const effort = values.quick ? efforts.quick : efforts.thorough;
  const hostcalls = await measureHostcalls(effort);
  const bareNs = hostcalls.find(({ name }) => name === BARE)?.nsPerCall ?? Number.NaN;
  const sendUs = await measureSends(effort.sends);
  const sendRatio = (sendUs * 1000) / bareNs;
  const report: Report = { hostcalls, sendUs, sendRatio, startUp: measureStartUp(effort.rounds) };
  printReport(report);
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
  if (!values.check) return 0;
  const complaints = exceeded(report);
  for (const complaint of complaints) console.error(complaint);
  return complaints.length > 0 ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
