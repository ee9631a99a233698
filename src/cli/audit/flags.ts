import { type FlagValues, flag, text } from '../command-table.ts';

/** Filters of `spear audit tail`. */
export const tailFlags = {
  follow: flag('continue with new lines, also after the file is rotated', { short: 'f' }),
  lines: text('N', 'number of last matching lines, or "all"', { short: 'n', default: '20' }),
  server: text('ID', 'only this server'),
  tool: text('PATTERN', 'only tools with such a name (*, ?)'),
  session: text('ID', 'only this session'),
  task: text('NAME', 'only this task'),
  instance: text('ID', 'only this run'),
  event: text('PATTERN', 'only such events (tool_call.*, approval.*, …)'),
  status: text('STATUS', 'only this status: ok, denied, failed, …'),
  since: text('TIME', 'not older than 90s, 15m, 2h, 3d, or a time such as 2026-01-31T08:00:00Z'),
} as const;

export type TailValues = FlagValues<typeof tailFlags>;

export const auditVerifyFlags = {
  key: text('REF', 'file:PATH or env:NAME of a key that signs the lines; every chain must have one of the keys', {
    multiple: true,
    fallback: 'audit.key of the config, if FILE is audit.file',
  }),
  strict: flag('exit with 1 also if lines were rotated away or lost, or a chain has no end'),
  json: flag('print one JSON value'),
} as const;
