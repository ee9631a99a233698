const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90d`, `12h`, `30m`, `0s` in milliseconds; null: not a duration. */
export function durationOf(text: string): number | null {
  const [, digits = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  return digits === '' ? null : Number(digits) * (units[unit] ?? 0);
}
