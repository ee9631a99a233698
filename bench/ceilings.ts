import type { Report } from './report.ts';
export function exceeded(_report: Report): string[] {
  return [];
}
