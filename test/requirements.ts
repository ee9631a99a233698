/** A promise of this project. Tests name the ids of what they verify in their titles. */
export interface Requirement {
  readonly id: string;
  readonly text: string;
  /** Where the promise was made. */
  readonly source: string;
}

export const requirements: readonly Requirement[] = [
  {
    id: 'layout.cycles',
    text: 'No two files of src/ import each other, directly or through others, types included.',
    source: 'issue 2',
  },
  {
    id: 'layout.direction',
    text: 'Imports between the folders of src/ only go down the list of layers.',
    source: 'issue 2',
  },
  { id: 'layout.environment', text: 'Only src/config/ reads the environment of the process.', source: 'issue 2' },
  { id: 'layout.length', text: 'No file of src/ is longer than 500 lines.', source: 'issue 2' },
  {
    id: 'requirements.covered',
    text: 'Every requirement has a test that names it, and every test names a requirement that exists.',
    source: 'issue 2',
  },
];
