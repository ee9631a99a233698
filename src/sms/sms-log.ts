/** One thing that happened, as data. Field values never hold a secret or content of a record. */
export type SmsLog = (
  level: 'info' | 'warn' | 'error',
  event: string,
  fields?: Readonly<Record<string, string | number | boolean>>,
) => void;
