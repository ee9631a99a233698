const steps: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** `3 h`, `12 s`, `now`. */
export function duration(ms: number): string {
  for (const [unit, size] of steps) if (ms >= size) return `${Math.floor(ms / size)} ${unit}`;
  return 'now';
}

export function ago(ms: number): string {
  const text = duration(ms);
  return text === 'now' ? 'just now' : `${text} ago`;
}

export function latency(ms: number | null): string {
  if (ms === null) return '–';
  if (ms < 1) return '< 1 ms';
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 ** 2) return `${(count / 1024).toFixed(0)} KiB`;
  if (count < 1024 ** 3) return `${(count / 1024 ** 2).toFixed(0)} MiB`;
  return `${(count / 1024 ** 3).toFixed(1)} GiB`;
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}

/** Local, to the second. */
export function clock(atMs: number): string {
  return Number.isFinite(atMs) && Math.abs(atMs) < 8e15 ? new Date(atMs).toLocaleString('sv') : '–';
}
