from resume_dl.api import Artifact as Artifact
from resume_dl.api import Downloaded as Downloaded
from resume_dl.api import Downloader as Downloader
from resume_dl.api import Progress as Progress
from resume_dl.api import fetch as fetch

__all__ = ["Artifact", "Downloaded", "Downloader", "Progress", "__version__", "fetch"]
__version__: str
