"""What papers on distributed training claim, run on gradwire and judged claim by claim: the study behind `gradwire
reproduce`.

A folder per paper has its printed values, how each claim is measured, and why some differ; they share scoring/,
measuring.py and pages/. The study is a client of gradwire, which does not import it, and is not part of the wheel: a
clone has it next to the package.
"""
