import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os';

/** The machine and the moment of a run: figures of another one are compared by their ratios alone. */
export interface Environment {
  readonly date: string;
  readonly effort: 'quick' | 'full';
  readonly node: string;
  readonly v8: string;
  readonly platform: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  /** Of the last minute, before the run: above the number of cores the figures are of a busy machine. */
  readonly load: number;
}

const GIB = 2 ** 30;

export function environment(effort: Environment['effort']): Environment {
  return {
    date: new Date().toISOString(),
    effort,
    node: process.version,
    v8: process.versions.v8,
    platform: `${process.platform} ${process.arch} ${release()}`,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round((totalmem() / GIB) * 10) / 10,
    load: Math.round((loadavg()[0] ?? 0) * 100) / 100,
  };
}
