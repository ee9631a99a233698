import { describeComponent } from './component/component-stages.ts';
import type { Prepared } from './prepare.ts';

/** What was loaded, for a person. */
export function describePrepared(prepared: Prepared): string {
  if (prepared.kind === 'component') return describeComponent(prepared);
  const unknown = prepared.unknownImports.length;
  return `core module${unknown ? `, ${unknown} unknown imports` : ''}`;
}
