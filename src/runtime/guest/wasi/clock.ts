import type { Chance } from '../../durable/guest/chance.ts';

const REALTIME = 0;
const CLOCKS = 4;

export const isClock = (id: number): boolean => id >= 0 && id < CLOCKS;

/** Nanoseconds; every clock but the wall's is the monotonic one. */
export const clockNow = (chance: Chance, id: number): bigint =>
  id === REALTIME ? BigInt(chance.wallMs()) * 1_000_000n : chance.monotonicNs();

export const clockResolution = (id: number): bigint => (id === REALTIME ? 1_000_000n : 1n);
