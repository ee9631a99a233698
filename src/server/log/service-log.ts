import { pino } from 'pino';
import { knownSecrets, redactStrings } from '../secrets/redactor.ts';

/** One thing that happened, as data. Field values never hold a secret or content of a record. */
export type ServiceLog = (
  level: 'info' | 'warn' | 'error',
  event: string,
  fields?: Readonly<Record<string, string | number | boolean>>,
) => void;

/** The log of a long-running command: one JSON object a line on stderr, written at once. */
export function openServiceLog(): ServiceLog {
  const lines = pino(
    {
      base: null,
      formatters: { level: (level) => ({ level }) },
      timestamp: pino.stdTimeFunctions.isoTime,
    },
    pino.destination({ dest: 2, sync: true }),
  );
  return (level, event, fields = {}) => lines[level]({ event, ...redactStrings(fields, knownSecrets.redact) });
}
